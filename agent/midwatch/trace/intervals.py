"""Arithmetic of half-open intervals in nanoseconds, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
NONE: Ints = np.empty(0, np.int64)


def rows_by(values: Ints, rows: Ints | None = None) -> Iterator[tuple[int, Ints]]:
    """Yield each value that occurs with the rows that hold it, in their order. Only ``rows`` count where given."""
    rows = np.arange(len(values)) if rows is None else rows
    chosen = values[rows]
    order = np.argsort(chosen, kind="stable")
    numbers, firsts = np.unique(chosen[order], return_index=True)
    edges = [*firsts.tolist(), len(order)]
    for index, number in enumerate(numbers.tolist()):
        yield number, rows[order[edges[index] : edges[index + 1]]]


def distinct(values: Ints) -> Ints:
    """The numbers that occur, in order. Those of names, lanes and shapes are small and dense: counting is quickest."""
    return np.flatnonzero(np.bincount(values)) if len(values) else NONE


def among(values: Ints, chosen: Sequence[int]) -> Mask:
    """Where a value is one of few: mostly of a single one, for which asking about a set costs ten times as much."""
    found: Mask = values == chosen[0] if len(chosen) == 1 else np.isin(values, chosen)
    return found


def pick(values: Ints, rows: Ints, other: Ints) -> Ints:
    """Return ``values[rows]``, and ``other`` where a row is negative: there is none."""
    found: Ints = other.copy()
    there = rows >= 0
    found[there] = values[rows[there]]
    return found


@dataclass(frozen=True, slots=True)
class Cover:
    """Disjoint sorted intervals; ``upto`` holds the length covered before each of them."""

    starts: Ints
    ends: Ints
    upto: Ints

    @classmethod
    def union(cls, starts: Ints, ends: Ints) -> Cover:
        """Merge intervals of any order and overlap."""
        keep = ends > starts
        starts, ends = starts[keep], ends[keep]
        if not len(starts):
            return cls(NONE, NONE, NONE)
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(ends[order])
        first = np.empty(len(starts), np.bool_)
        first[0] = True
        first[1:] = starts[1:] > reach[:-1]
        opens = np.flatnonzero(first)
        closes = np.append(opens[1:] - 1, len(starts) - 1)
        merged_starts, merged_ends = starts[opens], reach[closes]
        lengths = merged_ends - merged_starts
        return cls(merged_starts, merged_ends, np.cumsum(lengths) - lengths)

    @property
    def total(self) -> int:
        """Length of all of it."""
        return int((self.ends - self.starts).sum())

    def before(self, at: Ints) -> Ints:
        """Length covered before each time."""
        if not len(self.starts):
            return np.zeros(np.shape(at), np.int64)
        index = np.searchsorted(self.starts, at, side="right") - 1
        held = np.maximum(index, 0)
        inside = np.clip(at - self.starts[held], 0, self.ends[held] - self.starts[held])
        return np.where(index < 0, 0, self.upto[held] + inside)

    def within(self, starts: Ints, ends: Ints) -> Ints:
        """Length covered inside each of many intervals."""
        return self.before(ends) - self.before(starts)

    def inside(self, start: int, end: int) -> int:
        """Length covered inside one interval."""
        if end <= start:
            return 0
        both = self.before(np.array([start, end], np.int64))
        return int(both[1] - both[0])

    def holes(self, start: int, end: int) -> list[tuple[int, int]]:
        """The stretches of ``start`` to ``end`` that are not covered."""
        found = []
        at = start
        first = int(np.searchsorted(self.ends, start, side="right"))
        for a, b in zip(self.starts[first:].tolist(), self.ends[first:].tolist(), strict=True):
            if a >= end:
                break
            if a > at:
                found.append((at, a))
            at = max(at, b)
        if at < end:
            found.append((at, end))
        return found

    def clipped(self, start: int, end: int) -> list[tuple[int, int]]:
        """The covered stretches inside ``start`` to ``end``."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left"))
        return [
            (max(a, start), min(b, end))
            for a, b in zip(self.starts[first:last].tolist(), self.ends[first:last].tolist(), strict=True)
        ]
