"""A route's usual latency at this moment: the running median, and how far the slower half strays from it."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import deque
from itertools import islice

WINDOW = 400
"""Requests that the median is of: it follows a new level after half as many."""
_EACH = 50
"""Requests between two times that the median is worked out."""
_SLOW = 0.95
_FAR = math.log(2.0)
_PAST = 16
"""Times `_EACH` requests between now and what is taken for the level before."""
_KIND_SHARE = 0.08
_KIND_TIMES = 2_000 // _EACH
_BLOCKS = 96
_LEAST_BLOCKS = 24
_WIDER = 1.6
_WIDE, _OF = 6, 7


class Level:
    """Of one route. Takes natural logarithms of latencies in nanoseconds, those of dear shapes brought to one scale."""

    __slots__ = ("_at", "_crowded", "_left", "_medians", "_ring", "_spreads", "_until_block", "far", "median", "spread")

    def __init__(self) -> None:
        self._ring = array("d")
        self._at = 0
        self._left = 1
        self._until_block = WINDOW
        self._crowded = 0
        """How many times in a row more than `_KIND_SHARE` lay beyond ``far``."""
        self._medians: deque[float] = deque(maxlen=_PAST)
        self._spreads: deque[float] = deque(maxlen=_BLOCKS)
        self.median = 0.0
        self.spread = 0.0
        """The distance from the median to the 95th percentile."""
        self.far = 0.0
        """The distance from the median that `crowded` goes by."""

    @property
    def known(self) -> bool:
        """Whether anything was seen."""
        return bool(self._ring)

    def add(self, value: float) -> bool:
        """Take in one latency. Return whether the median was worked out anew: as long as a hundred additions."""
        ring = self._ring
        if len(ring) < WINDOW:
            ring.append(value)
        else:
            at = self._at
            ring[at] = value
            self._at = at + 1 if at + 1 < WINDOW else 0
        self._until_block -= 1
        self._left -= 1
        if self._left > 0:
            return False
        ordered = sorted(ring)
        count = len(ordered)
        self.median = ordered[count // 2]
        self.spread = ordered[int(_SLOW * (count - 1))] - self.median
        beyond = count - bisect_right(ordered, self.median + self.far)
        self._crowded = self._crowded + 1 if self.far and beyond > _KIND_SHARE * count else 0
        self._left = min(_EACH, count // 10 + 1)
        return True

    def crowded(self) -> bool:
        """Return whether one request in twelve and more lay beyond ``far``, and went on to for 2,000 requests.

        These are a kind of requests, then, and no spikes. A shift of the level looks like this, too, but only until the
        median has followed. It is told once.
        """
        if self._crowded < _KIND_TIMES:
            return False
        self._crowded = 0
        return True

    def shifted(self) -> bool:
        """Return whether the level has doubled within the last requests; call it each time that `add` said so.

        It is told once: what was before is forgotten then.
        """
        medians = self._medians
        medians.append(self.median)
        if len(medians) < _PAST:
            return False
        change = self.median - medians[0]
        if abs(change) < _FAR:
            return False
        medians.clear()
        return change > 0

    def widened(self) -> bool:
        """Return whether the slower half has strayed further for some thousand requests while the median stayed.

        Call it each time that `add` said so. It is told once, and then not before as many requests were seen again as
        it takes to know what is usual.
        """
        if self._until_block > 0:
            return False
        self._until_block = WINDOW
        spreads = self._spreads
        spreads.append(self.spread)
        if len(spreads) < _LEAST_BLOCKS + _OF:
            return False
        earlier = sorted(islice(spreads, len(spreads) - _OF))
        limit = _WIDER * earlier[len(earlier) // 2]
        wide = sum(spread > limit for spread in islice(spreads, len(spreads) - _OF, None))
        if wide < _WIDE or spreads[-1] <= limit:
            return False
        spreads.clear()
        return True
