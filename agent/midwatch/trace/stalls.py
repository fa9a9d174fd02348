"""Stretches in which a thread waited for its data loader, compiled, or crossed a graph break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from midwatch.trace.columns import Table
from midwatch.trace.intervals import NONE, Cover, Ints, Mask, rows_by
from midwatch.trace.load import Trace
from midwatch.trace.marks import (
    REGION,
    is_compilation,
    is_compilation_frame,
    is_loader,
    is_loader_frame,
    is_operator,
)

_TRIED = 64
"""Operators looked at on either side of a graph break."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Time of one lane, in nanoseconds of the trace."""

    lane: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Break(Stall):
    """Host time around a graph break, from the operator before to the operator after; ``at`` is where it resumes."""

    at: int = 0


def loader_stalls(trace: Trace) -> tuple[Stall, ...]:
    """Each wait for the next batch; from annotations or operators, else from Python frames."""
    return _marked(trace, is_loader, is_loader_frame)


def compilations(trace: Trace) -> tuple[Stall, ...]:
    """Each compilation of a frame, without those inside it."""
    return _marked(trace, is_compilation, is_compilation_frame)


def graph_breaks(trace: Trace) -> tuple[tuple[Break, ...], tuple[Stall, ...]]:
    """Graph breaks, and calls of compiled code.

    After a graph break the rest of the function runs as compiled code of its own, called from inside the first: so a
    region inside a region of the same thread is one break. Regions side by side are functions compiled one by one.
    """
    ops = trace.ops
    breaks: list[Break] = []
    calls: list[Stall] = []
    for lane, outer, inner in _nested(trace):
        calls.append(Stall(lane, int(ops.start[outer]), int(ops.end[outer])))
        if not inner:
            continue
        mine = np.flatnonzero((ops.lane == lane) & operators(trace))
        reach = int(ops.start[outer])
        for row in inner:
            at = int(ops.start[row])
            start, end = _around(ops, mine, at, reach, int(ops.end[outer]))
            breaks.append(Break(lane, start, end, at))
            reach = max(reach, end)
    return tuple(breaks), tuple(calls)


def operators(trace: Trace) -> Mask:
    """Mask over ``trace.ops`` of those that compute something; compiled code does, unless a graph break cuts it."""
    good = np.zeros(len(trace.names), np.bool_)
    numbers = np.unique(trace.ops.name)
    good[numbers] = [is_operator(trace.names[number]) for number in numbers.tolist()]
    chosen: Mask = good[trace.ops.name]
    for _, outer, inner in _nested(trace):
        if inner:
            chosen[[outer, *inner[:-1]]] = False
    return chosen


def _nested(trace: Trace) -> Iterator[tuple[int, int, list[int]]]:
    """Yield each outermost call of compiled code with the rows of those inside it, in order of time."""
    ops = trace.ops
    for lane, rows in rows_by(ops.lane, _rows(trace, ops, lambda name: name.startswith(REGION))):
        outer, inner = -1, list[int]()
        for row in rows.tolist():
            if outer >= 0 and int(ops.start[row]) < int(ops.end[outer]):
                inner.append(row)
                continue
            if outer >= 0:
                yield lane, outer, inner
            outer, inner = row, []
        if outer >= 0:
            yield lane, outer, inner


def _around(ops: Table, mine: Ints, at: int, start: int, end: int) -> tuple[int, int]:
    """End of the last operator before ``at`` and start of the first after it, inside the outermost region."""
    position = int(np.searchsorted(ops.start[mine], at))
    before = mine[max(position - _TRIED, 0) : position]
    last = max((int(t) for t in ops.end[before]), default=start)
    first = int(ops.start[mine[position]]) if position < len(mine) else end
    return min(max(last, start), at), max(min(first, end), at)


def _marked(trace: Trace, named: Callable[[str], bool], framed: Callable[[str], bool]) -> tuple[Stall, ...]:
    for tables, wanted in (((trace.annotations, trace.ops), named), ((trace.python,), framed)):
        found = [stall for table in tables for stall in _outermost(table, _rows(trace, table, wanted))]
        if found:
            return tuple(sorted(found, key=lambda stall: stall.start))
    return ()


def _rows(trace: Trace, table: Table, wanted: Callable[[str], bool]) -> Ints:
    if not len(table):
        return NONE
    numbers = [number for number in np.unique(table.name).tolist() if wanted(trace.names[number])]
    return np.flatnonzero(np.isin(table.name, numbers))


def _outermost(table: Table, rows: Ints) -> list[Stall]:
    found = []
    for lane, mine in rows_by(table.lane, rows):
        cover = Cover.union(table.start[mine], table.end[mine])
        found += [Stall(lane, a, b) for a, b in zip(cover.starts.tolist(), cover.ends.tolist(), strict=True)]
    return found
