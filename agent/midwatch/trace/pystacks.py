"""The innermost Python function of the service over time, from ``python_function`` events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from midwatch.trace.columns import Table
from midwatch.trace.intervals import NONE, Ints, distinct, rows_by


@dataclass(frozen=True, slots=True)
class Steps:
    """A step function of time: from ``at[i]`` on, the innermost interval is row ``row[i]`` (-1: none)."""

    at: Ints
    row: Ints
    parent: dict[int, int] = field(default_factory=dict)
    """Row around each row, where there is one."""

    def counted(self, times: list[int]) -> dict[int, int]:
        """How many of the times each row is innermost at."""
        at = np.searchsorted(self.at, np.array(times, np.int64), side="right") - 1
        rows, counts = np.unique(self.row[at[at >= 0]], return_counts=True)
        return dict(zip(rows.tolist(), counts.tolist(), strict=True))

    def chain(self, row: int) -> list[int]:
        """A row and all that lie around it, the innermost first."""
        found = []
        while row >= 0:
            found.append(row)
            row = self.parent.get(row, -1)
        return found

    def when(self, time: int) -> int:
        """Row that is innermost at one time, -1 for none."""
        index = int(np.searchsorted(self.at, time, side="right")) - 1
        return int(self.row[index]) if index >= 0 else -1

    def after(self, time: int) -> int:
        """Row that begins first after a time, -1 for none."""
        rows = self.row[int(np.searchsorted(self.at, time, side="left")) :]
        held = np.flatnonzero(rows >= 0)
        return int(rows[held[0]]) if len(held) else -1

    def weights(self, start: int, end: int) -> dict[int, int]:
        """Nanoseconds for which each row was innermost between two times."""
        first = max(int(np.searchsorted(self.at, start, side="right")) - 1, 0)
        last = int(np.searchsorted(self.at, end, side="left"))
        found: dict[int, int] = {}
        for i in range(first, last):
            a = max(int(self.at[i]), start)
            b = min(int(self.at[i + 1]) if i + 1 < len(self.at) else end, end)
            row = int(self.row[i])
            if b > a and row >= 0:
                found[row] = found.get(row, 0) + b - a
        return found


def innermost(table: Table, rows: Ints) -> Steps:
    """Sweep over intervals that mostly nest; one that outlives its parent is closed with it."""
    if not len(rows):
        return Steps(NONE, NONE)
    at: list[int] = []
    who: list[int] = []
    parent: dict[int, int] = {}
    stack: list[tuple[int, int]] = []
    starts, ends = table.start[rows].tolist(), table.end[rows].tolist()
    for row, start, stop in zip(rows.tolist(), starts, ends, strict=True):
        while stack and stack[-1][0] <= start:
            closed, _ = stack.pop()
            at.append(closed)
            who.append(stack[-1][1] if stack else -1)
        if stack:
            parent[row] = stack[-1][1]
        stack.append((min(stop, stack[-1][0]) if stack else stop, row))
        at.append(start)
        who.append(row)
    while stack:
        closed, _ = stack.pop()
        at.append(closed)
        who.append(stack[-1][1] if stack else -1)
    return Steps(np.array(at, np.int64), np.array(who, np.int64), parent)


def per_lane(table: Table, wanted: Callable[[int], bool]) -> dict[int, Steps]:
    """Step functions of each thread over the events whose name number is ``wanted``."""
    numbers = distinct(table.name)
    good = np.zeros(numbers[-1] + 1 if len(numbers) else 0, np.bool_)
    good[numbers] = [wanted(n) for n in numbers.tolist()]
    return {lane: innermost(table, rows) for lane, rows in rows_by(table.lane, np.flatnonzero(good[table.name]))}
