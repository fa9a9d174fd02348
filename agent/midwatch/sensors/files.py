"""Small files of the kernel's, read as cheaply as Python can."""

from __future__ import annotations

import os

_MOST = 65_536


def read_small(path: str) -> str:
    """Return the text of a file of at most 64 KiB. Raises `OSError`.

    What is no UTF-8 is replaced: the kernel cuts a thread's name after 15 bytes, in the middle of a character if it is
    there.

    `pathlib` and the text layer would run a page of Python for it; once in a while, with a cold cache, that costs more
    than all else that a sensor does.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, _MOST).decode(errors="replace")
    finally:
        os.close(handle)
