"""Whether the service still lives.

The end of the socket does not tell: a forked child of the service may hold it open for as long as it likes.
"""

from __future__ import annotations

import contextlib
import os
import select


class Parent:
    """The process that executed this one; watched by a pidfd, where the kernel gives none by its parenthood alone."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._handle = -1
        with contextlib.suppress(OSError, AttributeError):
            self._handle = os.pidfd_open(pid)

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the parent ends; -1 where `gone` must be asked instead."""
        return self._handle

    def gone(self) -> bool:
        """Return whether it has ended, reaped or not."""
        # A pid that was given anew before the pidfd was opened is not our parent's any more.
        if os.getppid() != self._pid:
            return True
        if self._handle < 0:
            return False
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Stop watching."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
