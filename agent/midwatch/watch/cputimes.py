"""Who ran while a look came late: while somebody holds the interpreter, he alone runs Python, and he runs.

A reading of all threads' CPU times before a pause, and one after it, say for how long each has run in between. What one
has run beyond the planned part of the pause it has run in the late part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from midwatch.watch.snapshot import snapshot
from midwatch.watch.threads import describe

_MAX_THREADS = 64
_HALF = 0.5
"""Of the time for which a look was late: who has run for more may have held the interpreter."""
_THREAD_CPU = 0b110
"""Of a clock's number on Linux, the low bits: the scheduler's time of one thread. Above them stands ``~tid``."""


def of_thread(native_id: int) -> int:
    """Return the CPU time of a thread of this process in nanoseconds. Raises `OSError` where there is none (any more).

    Not `time.pthread_getcpuclockid`, which reads the memory of a thread that may be gone. The number is that of
    ``clock_getcpuclockid`` for a thread (Linux: ``MAKE_THREAD_CPUCLOCK`` in ``include/linux/posix-timers.h``).
    """
    return time.clock_gettime_ns(~native_id << 3 | _THREAD_CPU)


def known_idents() -> list[int]:
    """Return the idents of all threads that Python knows, the agent's own too."""
    return snapshot(lambda: list(getattr(threading, "_active", ())))


class Runner(NamedTuple):
    """The one thread that ran while a look was late, and for how long at least."""

    ident: int
    ran_ns: int


class CpuTimes:
    """CPU times of the threads that Python knows. For one thread.

    Args:
        read: CPU time in nanoseconds by the kernel's id of a thread.
        idents: of the threads that there are.
    """

    def __init__(
        self, read: Callable[[int], int] = of_thread, idents: Callable[[], Iterable[int]] = known_idents
    ) -> None:
        self._read = read
        self._idents = idents
        self._native: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        """By ident: the CPU time at the last reading."""
        self._seen_ns = 0

    def note(self, now_ns: int) -> None:
        """Read the times of all threads, or of none where there are many or one of them has no time."""
        self.forget()
        idents = list(self._idents())
        if len(idents) > _MAX_THREADS:
            return
        native = {ident: self._native.get(ident) or describe(ident).native_id for ident in idents}
        try:
            self._seen = {ident: self._read(native_id) for ident, native_id in native.items()}
        except OSError:  # one has ended; another may have its ident
            self._native = {}
            return
        self._native, self._seen_ns = native, now_ns

    def forget(self) -> None:
        """Forget the last reading."""
        self._seen, self._seen_ns = {}, 0

    def alone(self, now_ns: int, late_ns: int, present: Collection[int]) -> Runner | None:
        """Return the thread that alone ran for half of the last ``late_ns`` and more, and forget the last reading.

        None where there is no such thread, or where that is not known: there was no reading, or one of the threads that
        run Python now (``present``, by ident) was not among those that were read.
        """
        seen, seen_ns = self._seen, self._seen_ns
        self.forget()
        planned_ns = now_ns - seen_ns - late_ns
        if not seen or planned_ns < 0 or not seen.keys() >= set(present):
            return None
        try:
            ran = {ident: self._read(self._native[ident]) - before_ns for ident, before_ns in seen.items()}
        except OSError:  # one that has ended may have been the one
            return None
        enough_ns = _HALF * late_ns
        candidates = [ident for ident, ran_ns in ran.items() if ran_ns >= enough_ns]
        if len(candidates) != 1:
            return None
        (ident,) = candidates
        in_late_ns = min(ran[ident] - planned_ns, late_ns)
        return Runner(ident, in_late_ns) if in_late_ns >= enough_ns else None
