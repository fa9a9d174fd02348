"""File descriptors, of which a process may have none left for a while: no fault of ours, and it passes."""

from __future__ import annotations

import errno
import os

_NONE_LEFT = (errno.EMFILE, errno.ENFILE)
REMEDY = "raise the limit of open files (ulimit -n)"


def no_descriptor_left(error: BaseException) -> bool:
    """Return whether ``error`` says that this process, or this machine, can open no more files."""
    if not isinstance(error, OSError):
        return False
    # What cannot be loaded as a library comes without a number.
    return error.errno in _NONE_LEFT if error.errno else any(os.strerror(number) in str(error) for number in _NONE_LEFT)


def remedy(error: OSError, otherwise: str) -> str:
    """Return what to do about ``error``: ``otherwise``, unless it is descriptors that are missing."""
    return REMEDY if no_descriptor_left(error) else otherwise
