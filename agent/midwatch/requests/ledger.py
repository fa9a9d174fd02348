"""The ledger: the last few thousand requests and units, for spikes and windows to look up."""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol, TypeVar

_MAX = 8_192


class Span(Protocol):
    """Something with a beginning and an end, in `Clock.perf_ns`."""

    start_ns: int
    end_ns: int


S = TypeVar("S", bound=Span)


class Ring:
    """The spans that ended last, in the order of their ends. Safe for several threads."""

    def __init__(self, size: int = _MAX) -> None:
        self._lock = threading.Lock()
        self._spans: deque[Span] = deque(maxlen=size)

    def add(self, *spans: Span) -> None:
        """Add spans that have ended."""
        with self._lock:
            self._spans.extend(spans)

    def overlapping(self, kind: type[S], start_ns: int, end_ns: int) -> list[S]:
        """Return the spans of this ``kind`` that share time with the interval, the earliest end first."""
        found: list[S] = []
        with self._lock:
            for span in reversed(self._spans):
                # Ends come nearly in order: threads append a moment after they have looked at the clock.
                if span.end_ns < start_ns - _SLACK_NS:
                    break
                if span.end_ns >= start_ns and span.start_ns <= end_ns and isinstance(span, kind):
                    found.append(span)
        found.reverse()
        return found

    def __len__(self) -> int:
        return len(self._spans)


_SLACK_NS = 1_000_000_000


class Ledger:
    """Requests and units that have ended."""

    def __init__(self) -> None:
        self.requests = Ring()
        self.units = Ring()
