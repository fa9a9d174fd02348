"""Time as a parameter: everything that looks at a clock is given one, so that tests can turn its hands."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """The times that the agent lives by."""

    def perf_ns(self) -> int:
        """Return the monotonic time in nanoseconds; marks and deadlines use it."""
        ...

    def cpu_ns(self) -> int:
        """Return the CPU time of the calling thread in nanoseconds."""
        ...

    def unix_ns(self) -> int:
        """Return the wall clock, Unix nanoseconds."""
        ...

    def to_unix(self, perf_ns: int) -> int:
        """Return the wall-clock time, in Unix nanoseconds, of a monotonic time."""
        ...

    def sync(self) -> None:
        """Look again at how far the two clocks are apart (the wall clock may have been set)."""
        ...

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """Wait for ``event``, at most ``timeout_s`` seconds; return whether it is set."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass, without the GIL."""
        ...


class SystemClock:
    """The real clocks. `perf_ns` and `cpu_ns` are the C functions themselves: they are called for every request."""

    perf_ns = staticmethod(time.perf_counter_ns)
    cpu_ns = staticmethod(time.thread_time_ns)
    unix_ns = staticmethod(time.time_ns)
    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self._offset_ns = 0
        self.sync()

    def to_unix(self, perf_ns: int) -> int:
        """Return the wall-clock time of a monotonic time, by the offset that `sync` saw last."""
        return perf_ns + self._offset_ns

    def sync(self) -> None:
        """Measure the offset between the clocks, from the closest of three pairs of readings."""
        best_gap_ns = offset_ns = 0
        for attempt in range(3):
            before_ns = time.perf_counter_ns()
            unix_ns = time.time_ns()
            gap_ns = time.perf_counter_ns() - before_ns
            if attempt == 0 or gap_ns < best_gap_ns:
                best_gap_ns, offset_ns = gap_ns, unix_ns - before_ns - gap_ns // 2
        self._offset_ns = offset_ns

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """Wait for ``event``."""
        return event.wait(timeout_s)
