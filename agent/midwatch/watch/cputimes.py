"""How long threads ran between two readings: while somebody holds the interpreter, he is the one who runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from midwatch.watch.threads import describe

_MAX_THREADS = 64
_THREAD_CPU = 0b110
"""Of a clock's number on Linux, the low bits: the scheduler's time of one thread. Above them stands ``~tid``."""


def of_thread(native_id: int) -> int:
    """Return the CPU time of a thread of this process in nanoseconds. Raises `OSError` where there is none (any more).

    Not `time.pthread_getcpuclockid`, which reads the memory of a thread that may be gone. The number is that of
    ``clock_getcpuclockid`` for a thread (Linux: ``MAKE_THREAD_CPUCLOCK`` in ``include/linux/posix-timers.h``).
    """
    return time.clock_gettime_ns(~native_id << 3 | _THREAD_CPU)


class CpuTimes:
    """CPU times of the threads that Python knows. For one thread.

    Args:
        read: CPU time in nanoseconds by the kernel's id of a thread.
        idents: of the threads that there are.
    """

    def __init__(
        self,
        read: Callable[[int], int] = of_thread,
        idents: Callable[[], Iterable[int]] = lambda: tuple(getattr(threading, "_active", ())),
    ) -> None:
        self._read = read
        self._idents = idents
        self._seen: dict[int, tuple[int, int]] = {}
        """By ident: the kernel's id, and the CPU time at the last reading."""

    def note(self) -> None:
        """Read the times of all threads, or of none where there are many."""
        idents = tuple(self._idents())
        before, self._seen = self._seen, {}
        if len(idents) > _MAX_THREADS:
            return
        for ident in idents:
            native_id = before[ident][0] if ident in before else describe(ident).native_id
            self._take(ident, native_id)

    def ran(self) -> dict[int, int]:
        """Return by ident for how long each thread has run since the last reading, where both are known."""
        found = {}
        for ident, (native_id, before_ns) in self._seen.copy().items():
            now_ns = self._take(ident, native_id)
            if now_ns >= 0:
                found[ident] = now_ns - before_ns
        return found

    def _take(self, ident: int, native_id: int) -> int:
        try:
            now_ns = self._read(native_id) if native_id else -1
        except OSError:  # it has ended; another may have its ident
            now_ns = -1
        if now_ns < 0:
            self._seen.pop(ident, None)
        else:
            self._seen[ident] = native_id, now_ns
        return now_ns
