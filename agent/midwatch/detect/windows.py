"""When windows of ours were open: requests that met one say more about us than about the service."""

from __future__ import annotations

import sys
import threading
from collections import deque

_KEPT = 64


class WindowLog:
    """The latest windows, from the first touch of the profiler to its last. Times are `Clock.perf_ns`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._past: deque[tuple[str, int, int]] = deque(maxlen=_KEPT)
        self._open: tuple[str, int] | None = None
        self.until_ns = -1
        """Later than this there is none: the end of the latest, or no end while one is open."""

    def begin(self, capture_id: str, now_ns: int) -> None:
        """Note that a window is about to open."""
        with self._lock:
            self._open = (capture_id, now_ns)
            self.until_ns = sys.maxsize

    def end(self, now_ns: int) -> None:
        """Note that it is over, its tear-down too."""
        with self._lock:
            if self._open is not None:
                self._past.append((*self._open, now_ns))
                self._open = None
                self.until_ns = now_ns

    def overlapping(self, start_ns: int, end_ns: int) -> str:
        """Return the capture whose window shares time with the interval, "" where none does."""
        if start_ns > self.until_ns:
            return ""
        with self._lock:
            if self._open is not None and end_ns >= self._open[1]:
                return self._open[0]
            for capture_id, begun_ns, ended_ns in reversed(self._past):
                if start_ns > ended_ns:
                    break  # those before it ended earlier still; this is asked for every request
                if end_ns >= begun_ns:
                    return capture_id
        return ""
