"""Stretches of time as sorted pairs of nanoseconds, so that no time is claimed twice."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

Span = tuple[int, int]


def merge(spans: Iterable[Span]) -> list[Span]:
    """Return the union of ``spans``: sorted, without overlap, empty ones left out."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def clip(spans: Iterable[Span], start: int, end: int) -> list[Span]:
    """Return the part of ``spans`` that lies between ``start`` and ``end``."""
    return merge((max(a, start), min(b, end)) for a, b in spans)


class Taken:
    """Time that is taken already. What is asked and what is added costs by its own length, not by all that is taken."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def spans(self) -> list[Span]:
        """All of it: sorted, without overlap."""
        return list(zip(self._starts, self._ends, strict=True))

    def left_of(self, spans: Iterable[Span]) -> list[Span]:
        """Return what is left of ``spans``."""
        left: list[Span] = []
        for start, end in merge(spans):
            at = start
            for index in range(bisect_right(self._ends, at), bisect_left(self._starts, end)):
                if self._starts[index] > at:
                    left.append((at, self._starts[index]))
                at = max(at, self._ends[index])
            if at < end:
                left.append((at, end))
        return left

    def take(self, spans: Iterable[Span]) -> None:
        """Add ``spans``."""
        for start, end in merge(spans):
            touched = slice(bisect_left(self._ends, start), bisect_right(self._starts, end))
            self._starts[touched] = [min([start, *self._starts[touched]])]
            self._ends[touched] = [max([end, *self._ends[touched]])]


def total_ms(spans: Iterable[Span]) -> float:
    """Return the length of the union of ``spans`` in milliseconds."""
    return sum(end - start for start, end in merge(spans)) / 1e6
