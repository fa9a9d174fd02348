"""How far healthy requests stray from the usual latency: the ratio that one in an hour's worth of requests exceeds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from midwatch.requests.sketch import add_counts, at_shares

BLOCK = 5_000
ALARM = 1.0 / 360_000.0
"""The share of healthy requests that may exceed the limit: one an hour at a hundred a second."""
_HIGH, _LOW = 0.002, 0.04
_FIRST, _FIRST_SHARE, _FURTHER = 200, 0.075, 0.75
"""Of a route's first requests every thirteenth lies beyond the further point: a kind of requests that is more frequent
counts as noise, and a fault that is less frequent does not. With more requests it goes further out, less fast than they
become more, so that it is known better and better."""
_WIDEST = 0.25
_BLOCKS = 24
_ENOUGH_BLOCKS = 8
_MARGIN = 1.0
_BEYOND = math.log(2.0)
"""How far beyond all that was seen the noise may reach, while it is not known well: two kinds of requests in the first
two hundred would let it reach to the moon."""
_PER_UNIT, _OFFSET = 100.0, 2_000
"""Logarithms of ratios are counted in steps of a hundredth, that is of one percent."""
Counts = dict[int, int]
"""How many ratios lie in each step."""


class Tail:
    """Of one route. Takes natural logarithms of ratios of latencies to the usual one; the caller leaves out spikes."""

    __slots__ = ("_before", "_block", "_now", "_points", "_until", "count", "limit")

    def __init__(self) -> None:
        self._now: Counts = {}
        self._before: Counts = {}
        """What the block before this one held."""
        self._block = _FIRST
        """How many make this block: each is twice as large as the one before, until it is a whole one."""
        self._points: deque[tuple[float, float]] = deque(maxlen=_BLOCKS)
        """For each block the logarithms of the two ratios that the shares `_LOW` and `_HIGH` exceed."""
        self._until = 1
        self.count = 0
        self.limit = 0.0
        """The natural logarithm of the ratio that the share `ALARM` exceeds."""

    def add(self, ratio: float) -> bool:
        """Take in the logarithm of one ratio. Return whether the limit was worked out anew."""
        step = int(ratio * _PER_UNIT + _OFFSET)
        now = self._now
        now[step] = now.get(step, 0) + 1
        self.count += 1
        self._until -= 1
        if self._until > 0:
            return False
        here = sum(now.values())
        if here >= self._block:
            self._end_block()
            here = 0
        if len(self._points) >= _ENOUGH_BLOCKS:
            self._until = self._block
            self.limit = self._by_blocks()
        else:
            seen = _sum(self._before, self._now)
            count = sum(seen.values())
            # After each tenth more, and when a block is complete: when the first is, the limit is asked for.
            self._until = max(1, min(self._block - here, count // 10))
            self.limit = _extrapolated(seen, count)
        return True

    def quantiles(self, *shares: float) -> list[float]:
        """Return the logarithms of the ratios that ``shares``, rising, of the last requests do not exceed."""
        return _quantiles(_sum(self._before, self._now), shares)

    def _end_block(self) -> None:
        ended, self._now, self._before = self._now, {}, self._now
        if self._block == BLOCK:
            low, high = _quantiles(ended, (1.0 - _LOW, 1.0 - _HIGH))
            self._points.append((low, high))
        self._block = min(2 * self._block, BLOCK)

    def _by_blocks(self) -> float:
        """The median over the blocks: a fault that came and went in some of them does not count."""
        low, high = (sorted(points)[len(self._points) // 2] for points in zip(*self._points, strict=True))
        return _limit(low, high, _LOW, _HIGH, BLOCK * len(self._points))


def _extrapolated(seen: Counts, count: int) -> float:
    """The limit from the last two blocks, by what is far out and still has some requests beyond it."""
    share = max(_HIGH, _FIRST_SHARE * (_FIRST / count) ** _FURTHER)
    if share >= _WIDEST:
        return 0.0
    low_share = min(_WIDEST, _LOW / _HIGH * share)
    low, high = _quantiles(seen, (1.0 - low_share, 1.0 - share))
    furthest = (max(seen) + 1 - _OFFSET) / _PER_UNIT + _BEYOND
    return min(_limit(low, high, low_share, share, count), furthest)


def _sum(some: Counts, more: Counts) -> Counts:
    both = dict(some)
    add_counts(both, more)
    return both


def _quantiles(counts: Counts, shares: Iterable[float]) -> list[float]:
    """For each of the rising shares the middle of the step below whose end it lies."""
    return [(step - _OFFSET + 0.5) / _PER_UNIT for step in at_shares(counts, shares)]


def _limit(low: float, high: float, low_share: float, share: float, count: int) -> float:
    """Follow the line through two points of the tail out to `ALARM`, and add its standard error.

    The line is drawn over the normal deviate of each share: a log-normal's tail is straight there. The error is that
    of order statistics: the deviate that a share p of n exceeds has the standard error 1 / (h(z) sqrt(n p)) with the
    hazard rate h of the normal distribution; for z over 0.6, h is within 2 % of z + 1 / (z + 1).
    """
    z_low, z_high, z_alarm = _deviate(low_share), _deviate(share), _deviate(ALARM)
    slope = max(0.0, high - low) / (z_high - z_low)
    further = (z_alarm - z_high) / (z_high - z_low)
    error_high = (1.0 + further) / (_hazard(z_high) * math.sqrt(count * share))
    error_low = further / (_hazard(z_low) * math.sqrt(count * low_share))
    return high + slope * (z_alarm - z_high + _MARGIN * math.hypot(error_high, error_low))


def _hazard(z: float) -> float:
    return z + 1.0 / (z + 1.0)


def _deviate(share: float) -> float:
    """Return what the share of a standard normal distribution exceeds; within 4.5e-4.

    Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.23.
    """
    t = math.sqrt(-2.0 * math.log(share))
    return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
