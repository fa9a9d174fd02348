"""A sketch of latencies: any quantile within one percent, in a few hundred counters, and two sketches add up.

This is DDSketch (Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with relative-error
guarantees", VLDB 2019). With ``gamma = (1 + alpha) / (1 - alpha)`` a value x falls into the bucket
``i = ceil(log(x) / log(gamma))``, which covers ``(gamma^(i-1), gamma^i]``. Every value of a bucket is within the
relative error ``alpha`` of its representative ``2 * gamma^i / (gamma + 1)``. So a quantile, found by counting through
the buckets in order, is within ``alpha`` of the true one, and merging is adding the counts, without any loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from midwatch.model.requests import LatencySketch

ALPHA = 0.01
_MIN_NS = 1_000
"""Latencies below a microsecond share one bucket: no service tells them apart, and it bounds the number of buckets."""


class Sketch:
    """A sketch that is being filled. Not safe for two threads at a time."""

    __slots__ = ("_log_gamma", "alpha", "buckets", "count", "max_ns", "min_ns", "sum_ns")

    def __init__(self, alpha: float = ALPHA) -> None:
        self.alpha = alpha
        self._log_gamma = math.log((1 + alpha) / (1 - alpha))
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.sum_ns = 0
        self.min_ns = 0
        self.max_ns = 0

    @classmethod
    def of(cls, frozen: LatencySketch) -> Sketch:
        """Return a sketch with the contents of ``frozen``."""
        sketch = cls(frozen.alpha)
        sketch.buckets = dict(frozen.buckets)
        sketch.count, sketch.sum_ns = frozen.count, frozen.sum_ns
        sketch.min_ns, sketch.max_ns = frozen.min_ns, frozen.max_ns
        return sketch

    def add(self, value_ns: int) -> None:
        """Add one latency in nanoseconds."""
        # Without `max`, here and below: calling it takes longer than all else, and this runs twice for each request.
        value = value_ns if value_ns > _MIN_NS else _MIN_NS  # noqa: FURB136
        index = math.ceil(math.log(value) / self._log_gamma)
        buckets = self.buckets
        buckets[index] = buckets.get(index, 0) + 1
        if value_ns < self.min_ns or self.count == 0:
            self.min_ns = value_ns
        if value_ns > self.max_ns:  # noqa: PLR1730
            self.max_ns = value_ns
        self.count += 1
        self.sum_ns += value_ns

    def merge(self, other: Sketch) -> None:
        """Add all that ``other`` holds. Raises `ValueError` where the two have different ``alpha``."""
        if other.alpha != self.alpha:
            raise ValueError(f"sketches of alpha {self.alpha} and {other.alpha} do not add up")
        if other.count == 0:
            return
        add_counts(self.buckets, other.buckets)
        self.min_ns = min(self.min_ns, other.min_ns) if self.count else other.min_ns
        self.max_ns = max(self.max_ns, other.max_ns)
        self.count += other.count
        self.sum_ns += other.sum_ns

    def quantile(self, q: float) -> float:
        """Return the latency in nanoseconds that the share ``q`` (0 to 1) of all does not exceed; 0.0 where empty."""
        return self.quantiles(q)[0]

    def quantiles(self, *shares: float) -> tuple[float, ...]:
        """Return several quantiles at once; ``shares`` rise."""
        if self.count == 0:
            return (0.0,) * len(shares)
        # The true extremes are known, and a representative may lie outside of them.
        least, most = float(self.min_ns), float(self.max_ns)
        return tuple(min(max(self._representative(index), least), most) for index in at_shares(self.buckets, shares))

    def freeze(self) -> LatencySketch:
        """Return the contents as a value."""
        return LatencySketch(
            alpha=self.alpha,
            count=self.count,
            sum_ns=self.sum_ns,
            min_ns=self.min_ns,
            max_ns=self.max_ns,
            buckets=tuple(sorted(self.buckets.items())),
        )

    def _representative(self, index: int) -> float:
        gamma = (1 + self.alpha) / (1 - self.alpha)
        return 2 * math.exp(index * self._log_gamma) / (gamma + 1)


def add_counts(counts: dict[int, int], more: Mapping[int, int]) -> None:
    """Add to ``counts``, which say how many values lie in each step, those of ``more``."""
    for step, count in more.items():
        counts[step] = counts.get(step, 0) + count


def at_shares(counts: Mapping[int, int], shares: Iterable[float]) -> list[int]:
    """Return for each of the rising ``shares`` (0 to 1) the step below whose end it lies; ``counts`` is not empty."""
    steps, total = iter(sorted(counts.items())), sum(counts.values())
    seen, step = 0, 0
    found = []
    for share in shares:
        rank = share * (total - 1)
        while seen <= rank and seen < total:
            step, count = next(steps)
            seen += count
        found.append(step)
    return found


def merged(*sketches: LatencySketch) -> LatencySketch:
    """Return the sum of several sketches of one ``alpha``; an empty one where there are none."""
    total = Sketch(sketches[0].alpha if sketches else ALPHA)
    for sketch in sketches:
        total.merge(Sketch.of(sketch))
    return total.freeze()


def quantile(sketch: LatencySketch, q: float) -> float:
    """Return the ``q``-quantile in nanoseconds, within the relative error ``alpha``; 0.0 where empty."""
    return Sketch.of(sketch).quantile(q)
