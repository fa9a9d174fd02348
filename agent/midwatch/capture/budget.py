"""Self-restraint: how many windows an hour, how far apart, how long, and how soon again after one that went wrong."""

from __future__ import annotations

from collections import deque

LEAST_S = 0.06
"""Tearing down a session closed at once has hung services; sessions of this length never did."""
MOST_S = 10.0
DEFAULT_S = 0.3
SPACING_S = 1.0
_HOUR_S = 3600.0
_TRACE_BYTES = 48 * 1024 * 1024
"""A window ends when its trace is likely to be as large as this: what it costs to stop and to read grows with it."""
_COOL_DOWN_S = 30.0
_LONGEST_COOL_DOWN_S = 600.0


class Budget:
    """The budget of one process. Times are monotonic seconds."""

    def __init__(self, per_hour: int) -> None:
        self._per_hour = per_hour
        self._opened_s: deque[float] = deque(maxlen=max(1, per_hour))
        self._ended_s = -SPACING_S
        self._bad = 0
        self._bytes_per_s = 0.0

    def refuse(self, reason: str, now_s: float) -> str:
        """Return "" or why a window for this reason must not open now, in one sentence.

        Windows that the agent opens by itself get half of the hourly budget at most, and none while it cools down
        after a bad one: then there is always one left for the person who asks.
        """
        by_itself = reason != "demand"
        allowed = (self._per_hour + 1) // 2 if by_itself else self._per_hour
        if sum(now_s - opened_s < _HOUR_S for opened_s in tuple(self._opened_s)) >= allowed:
            return f"the budget of {allowed} windows an hour is spent; MIDWATCH_WINDOWS_PER_HOUR raises it"
        left_s = self._ended_s + self._cool_down_s() - now_s
        if by_itself and self._bad and left_s > 0:
            waits_s = self._cool_down_s()
            return f"the last window went wrong: for {waits_s:.0f} s after it none opens that nobody asks for"
        return ""

    def spacing_left_s(self, now_s: float) -> float:
        """Return how long to wait before the next window may open."""
        return max(0.0, self._ended_s + SPACING_S - now_s)

    def seconds(self, asked_s: float, requests: int, engine_s: float) -> float:
        """Return how long a window may be.

        Args:
            asked_s: what the order says, 0.0 for the default; with ``requests`` and without seconds, the longest.
            requests: whole requests to wait for, 0 for none.
            engine_s: the longest that the engine's own budget allows.
        """
        wanted_s = asked_s or (MOST_S if requests else DEFAULT_S)
        fits_s = _TRACE_BYTES / self._bytes_per_s if self._bytes_per_s else MOST_S
        return max(LEAST_S, min(wanted_s, MOST_S, engine_s, fits_s))

    def opened(self, now_s: float) -> None:
        """Note that a window is being opened."""
        self._opened_s.append(now_s)

    def measured(self, seconds: float, trace_bytes: int) -> None:
        """Note how large the trace of a window became; the next one is sized by it."""
        if trace_bytes and seconds > 0:
            self._bytes_per_s = trace_bytes / seconds

    def ended(self, now_s: float, *, good: bool) -> None:
        """Note that a window has ended, and whether it went well."""
        self._ended_s = now_s
        self._bad = 0 if good else self._bad + 1

    def _cool_down_s(self) -> float:
        return float(min(_COOL_DOWN_S * 2 ** max(0, self._bad - 1), _LONGEST_COOL_DOWN_S))
