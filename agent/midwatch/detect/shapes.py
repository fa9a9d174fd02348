"""How much dearer the inputs of one shape are than a route's usual ones: each shape is a class of its own."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator

MOST = 256
UNJUDGED = 3
"""Requests of a new shape before there is anything to hold the next ones against."""
FEW = 25
"""More than half of so many last requests, where they say that the factor is another, are no cluster of spikes."""
_LONGEST_MEMORY = 200
_RECENT = 1_000
_FORGOTTEN = 10_000
_PATIENCE = 400
"""Requests of the route for which the last ones of a shape must be far off: where all shapes are, the level follows."""
_FAR = math.log(2.0)
_DEVIATE_95 = 1.645
_OF_A_MEDIAN = 1.25
_UNSURE = 2.5


class Shape:
    """One class. ``factor`` is the median distance of its latencies from the route's level, as a logarithm.

    ``usual`` is the class of the first request that the level is learnt from: its factor begins with 0.
    """

    __slots__ = ("_far_since", "_recent", "count", "factor", "last", "usual")

    def __init__(self) -> None:
        self.usual = False
        self.count = 0
        self.factor = 0.0
        self.last = 0
        """The number of the last request of this shape."""
        self._recent = array("d")
        self._far_since = 0
        """The number of the request at which the last ones were found to be far off; 0 while they are not."""

    @property
    def judged(self) -> bool:
        """Whether enough was seen to hold a request against it."""
        return self.usual or self.count >= UNJUDGED

    def slack(self, spread: float) -> float:
        """Return how far off ``factor`` may be, given the distance from the median to the 95th percentile."""
        if self.usual:
            return 0.0
        known = min(max(1, self.count), _LONGEST_MEMORY)
        return _UNSURE * _OF_A_MEDIAN * spread / _DEVIATE_95 / math.sqrt(known)

    def learn(self, value: float, level: float, spread: float) -> None:
        """Take in the logarithm of one latency, of a spike, too: where most are, this is usual.

        The first ones give the median of their own, whatever the level was, which may not have been known yet. Later
        ones move the factor by a step each, the best one for a normal distribution; where the last ones have another
        median altogether, it is taken.
        """
        recent, at = self._recent, self.count % FEW
        self.count += 1
        if self.count <= FEW and not self.usual:
            recent.append(value)
            self.factor = sorted(recent)[len(recent) // 2] - level
            return
        distance = value - level
        if len(recent) < FEW:
            recent.append(distance)
        else:
            recent[at] = distance
        step = _OF_A_MEDIAN * spread / _DEVIATE_95 / min(self.count, _LONGEST_MEMORY)
        self.factor += step if distance > self.factor else -step
        if at == FEW - 1:
            median = sorted(recent)[FEW // 2]
            if abs(median - self.factor) <= _FAR:
                self._far_since = 0
            elif not self._far_since:
                self._far_since = self.last
            elif self.last - self._far_since >= _PATIENCE:
                self.factor, self._far_since = median, 0


class Shapes:
    """All classes of one route, those seen last at the end. Where there are too many shapes, the rest share one."""

    __slots__ = ("_known", "_rest", "several")

    def __init__(self) -> None:
        self._known: dict[str, Shape] = {}
        self._rest: Shape | None = None
        self.several = False

    def find(self, key: str, number: int) -> Shape:
        """Return the class of this shape; ``number`` is that of the present request."""
        known = self._known
        shape = known.get(key)
        if shape is None:
            shape = self._begun(key, number)
        elif self.several:
            known[key] = known.pop(key)
        shape.last = number
        return shape

    def _begun(self, key: str, number: int) -> Shape:
        known = self._known
        if len(known) >= MOST:
            oldest = next(iter(known))
            if number - known[oldest].last <= _FORGOTTEN:
                if self._rest is None:
                    self._rest = Shape()
                return self._rest
            del known[oldest]
        shape = known[key] = Shape()
        self.several = len(known) > 1
        return shape

    def factor(self, key: str) -> float:
        """Return the factor of a shape; 0.0 where it is not known, or by its first requests alone."""
        shape = self._known.get(key, self._rest)
        return 0.0 if shape is None or not shape.judged else shape.factor

    def recent(self, number: int) -> Iterator[Shape]:
        """Return the classes that were seen within the last thousand requests; ``number`` is the present one."""
        for shape in (*self._known.values(), *((self._rest,) if self._rest is not None else ())):
            if shape.judged and number - shape.last <= _RECENT:
                yield shape
