"""The ledger: the last few thousand requests and units, for spikes and windows to look up."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Protocol, TypeVar

_MAX = 8_192
_SLACK_NS = 100_000_000
"""Ends come nearly in order: threads append a moment after they have looked at the clock."""


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
        with self._lock:
            found = list(self._backwards(kind, start_ns, end_ns))
        found.reverse()
        return found

    def latest(self, kind: type[S], start_ns: int, end_ns: int) -> S | None:
        """Return the last of what `overlapping` returns. Looks no further back: it is asked for every request."""
        with self._lock:
            return next(self._backwards(kind, start_ns, end_ns), None)

    def __len__(self) -> int:
        return len(self._spans)

    def _backwards(self, kind: type[S], start_ns: int, end_ns: int) -> Iterator[S]:
        for span in reversed(self._spans):
            if span.end_ns < start_ns - _SLACK_NS:
                return
            if span.end_ns >= start_ns and span.start_ns <= end_ns and isinstance(span, kind):
                yield span


class Ledger:
    """Requests and units that have ended."""

    def __init__(self) -> None:
        self.requests = Ring()
        self.units = Ring()
