"""How far a companion came with what it was given, so that what dies with it is known.

The agent numbers its frames. A companion notes on the tmpfs, after each, which one that was, and how many records it
holds in memory alone. Its heir reads the note: those records are lost, and so is each frame between the noted one and
the first that the heir gets; the agent is told, which counts and logs it.

What can be lost is little. Evidence is on disk before the next frame is handled, and windows are noted apart.
Statistics are gathered for up to a second and a half, since a batch for each would cost twice the files, calls and
commits at the collector for a loss that takes a ``kill -9``; that second and a half, and the few frames that the loop
reads at once, is the bound. (Where the disk takes nothing, it is what the spool holds in memory.) A frame that died
just after it was on disk counts as lost.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from midwatch.link import tracedir

_FORMAT = "%020d %012d\n"


class Progress:
    """The note of one companion, which begins where that of the one before it ends; for one thread alone."""

    def __init__(self, folder: Path, lost: Callable[[int], object]) -> None:
        """``folder`` is private to the agent; one that takes no file loses the note. ``lost`` hears of each loss."""
        self._lost = lost
        self._handle = -1
        self._number = 0
        self._noted = (0, 0)
        with contextlib.suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._handle = os.open(folder / tracedir.PROGRESS, flags, 0o600)
            with contextlib.suppress(ValueError):
                self._number, before = map(int, os.read(self._handle, 64).split())
                self._report(before)

    def got(self, number: int) -> None:
        """Note that the frame ``number`` was read; those before it that nobody noted are lost."""
        if self._handle >= 0 and number > self._number:
            self._report(number - self._number - 1)
            self._number = number

    def keep(self, held: int) -> None:
        """Note that all that was read is safe but for ``held`` records in memory."""
        note = (self._number, held)
        if self._handle >= 0 and note != self._noted:
            self._noted = note
            with contextlib.suppress(OSError):
                os.pwrite(self._handle, (_FORMAT % note).encode(), 0)

    def _report(self, count: int) -> None:
        if count > 0:
            self._lost(count)
