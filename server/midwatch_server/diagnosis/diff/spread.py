"""When a difference between two windows counts: outside the spread of the requests in them.

Definition: with at least `FEW` requests on both sides, the two-sided rank-sum test of Mann and Whitney (1947) gives the
difference a chance of at most `CHANCE` to arise among requests that do not differ; with fewer, the ranges of the two
must lie apart after each was widened by `ONE_REQUEST`, since one request has no spread of its own. In both cases the
medians must differ by more than a floor that the caller gives: what is smaller is real, perhaps, but matters to nobody.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from midwatch_server.diagnosis.diff.values import Sample

FEW = 3
CHANCE = 0.1
ONE_REQUEST = 0.05
EXACT = 20
"""Up to so many requests on a side the chance is counted, beyond it is approximated by the normal distribution."""


def sample(values: Sequence[float]) -> Sample:
    """Return the median and the middle half of ``values``, which must not be empty."""
    ranked = sorted(values)
    return Sample(statistics.median(ranked), _quantile(ranked, 0.25), _quantile(ranked, 0.75), len(ranked))


def status(a: Sequence[float], b: Sequence[float], floor: float) -> str:
    """Return ``more``, ``less`` or ``same`` of ``b`` against ``a``; neither may be empty."""
    delta = statistics.median(b) - statistics.median(a)
    if abs(delta) <= floor or not _apart(a, b):
        return "same"
    return "more" if delta > 0 else "less"


def _apart(a: Sequence[float], b: Sequence[float]) -> bool:
    if min(len(a), len(b)) >= FEW:
        return chance(a, b) <= CHANCE
    wide_a, wide_b = _widened(a), _widened(b)
    return wide_a[1] < wide_b[0] or wide_b[1] < wide_a[0]


def _widened(values: Sequence[float]) -> tuple[float, float]:
    return min(values) * (1 - ONE_REQUEST), max(values) * (1 + ONE_REQUEST)


def chance(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the chance that requests without a difference are ranked as unevenly as these, 0 to 1."""
    if len({*a, *b}) == 1:
        return 1.0
    beats = sum((y < x) + 0.5 * (y == x) for x in a for y in b)
    fewer = min(beats, len(a) * len(b) - beats)
    tied = len({*a, *b}) < len(a) + len(b)
    if not tied and max(len(a), len(b)) <= EXACT:
        counts = _arrangements(len(a), len(b))
        return min(2 * sum(counts[: math.floor(fewer) + 1]) / sum(counts), 1.0)
    return _approximated(a, b, fewer)


def _approximated(a: Sequence[float], b: Sequence[float], fewer: float) -> float:
    """By the normal distribution, with the correction for ties."""
    n, m = len(a), len(b)
    both = [*a, *b]
    ties = sum(k**3 - k for k in (both.count(value) for value in set(both)))
    variance = n * m / 12 * ((n + m + 1) - ties / ((n + m) * (n + m - 1)))
    if variance <= 0:
        return 1.0
    distance = max(n * m / 2 - fewer - 0.5, 0.0) / math.sqrt(variance)
    return math.erfc(distance / math.sqrt(2))


@lru_cache(maxsize=256)
def _arrangements(n: int, m: int) -> tuple[int, ...]:
    """In how many orders of ``n`` and ``m`` things each number of pairs stands the wrong way round."""
    if not n or not m:
        return (1,)
    total = [0] * (n * m + 1)
    for wrong, ways in enumerate(_arrangements(n, m - 1)):
        total[wrong] += ways
    for wrong, ways in enumerate(_arrangements(n - 1, m)):
        total[wrong + m] += ways
    return tuple(total)


def _quantile(ranked: Sequence[float], share: float) -> float:
    at = share * (len(ranked) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (at - low)
