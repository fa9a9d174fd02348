"""One cause does not yield a thousand spikes: how many are told a minute, and when a route's spikes recur."""

from __future__ import annotations

import itertools
from collections import deque

_BURST = 3
_REFILL_NS = 10_000_000_000
_RECUR_NS = 120_000_000_000
_RECUR_COUNT = 2
_COOL_DOWN_NS = 60_000_000_000


class SpikeGate:
    """Of one route. All spikes are counted elsewhere; this says which are told, and which call for a window."""

    def __init__(self) -> None:
        self._tokens = float(_BURST)
        self._refilled_ns = 0
        self._recent: deque[int] = deque(maxlen=8)
        self._window_ns = -_COOL_DOWN_NS

    def admit(self, now_ns: int, *, watched: bool = True) -> bool:
        """Note a spike at the monotonic time ``now_ns``. Return whether to tell it: three at once, then one in 10 s.

        One that ended before it was overdue by the deadline that it began with, as while the route's is being learnt,
        was not ``watched``: there is little to tell of it, so it takes one of the three only, and none of the others.
        """
        self._recent.append(now_ns)
        if self._refilled_ns:
            self._tokens = min(float(_BURST), self._tokens + (now_ns - self._refilled_ns) / _REFILL_NS)
        self._refilled_ns = now_ns
        if self._tokens < (1.0 if watched else _BURST):
            return False
        self._tokens -= 1.0
        return True

    def window_seconds(self, now_ns: int, *, least_s: float, most_s: float) -> float:
        """Return how long a window should be that catches the next spike, or 0.0 where none is called for.

        A first spike calls for none: nobody knows whether there will be a second. Of two within two minutes the
        route's window is as long as the usual distance between its spikes and a fifth, within ``least_s`` and
        ``most_s``. After a window (`window_ordered`) the route is left alone for a minute.
        """
        recent = [at_ns for at_ns in self._recent if now_ns - at_ns <= _RECUR_NS]
        if len(recent) < _RECUR_COUNT or now_ns - self._window_ns < _COOL_DOWN_NS:
            return 0.0
        gaps = sorted(later - earlier for earlier, later in itertools.pairwise(recent))
        return min(max(1.2 * gaps[len(gaps) // 2] / 1e9, least_s), most_s)

    def window_ordered(self, now_ns: int) -> None:
        """Note that the window was ordered."""
        self._window_ns = now_ns
