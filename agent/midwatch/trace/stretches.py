"""Stretches of a request in which the model's work stood still: where they are, before it is asked why."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from midwatch.trace.intervals import Cover
from midwatch.trace.plan import Plan
from midwatch.trace.scene import Scene
from midwatch.trace.spans import Part, RequestSpan

SHORTEST_NS = 100_000
"""A pause between two launches below this is dispatch, not a gap."""
SHORTEST_CPU_NS = 300_000
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.05
_TYPICAL = 4.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Host time on one thread; the device idled for ``idle`` of it (for all of it where there is none)."""

    request: int
    part: Part
    start: int
    end: int
    idle: int
    device: bool
    owner: Part | None = None
    """The request's own thread, where ``part`` is a unit's: it is asked when the unit's thread had nothing to do."""
    around: tuple[int, int] = (-1, -1)
    """Name numbers of the work before and after: stretches with equal ones do the same, request after request."""

    @property
    def length(self) -> int:
        """Nanoseconds."""
        return self.end - self.start


def device_stretches(scene: Scene, plan: Plan) -> list[Stretch]:
    """Long pauses between launches, from a plan, while the device had nothing to do."""
    request = plan.request
    pauses = _pauses(plan)
    names = _Around(scene, plan)
    if scene.spans.basis == "window":
        # What lies before the first launch and after the last call is the edge of a recording, not of a request.
        pauses = [(a, b) for a, b in pauses if plan.items[0].start <= a and b <= plan.items[-1].end]
    shortest = threshold(plan)
    found = []
    for start, end in pauses:
        if end - start < shortest:
            continue
        part = _part_at(request, start, end)
        if part is None:
            continue
        idle = (end - start) - scene.busy.inside(start, end)
        if idle >= shortest / 2:
            found.append(
                Stretch(request.index, part, start, end, idle, True, _owner(request, part), names.of(start, end))
            )
    return found


class _Around:
    """Finds the work that was launched before and after a pause."""

    def __init__(self, scene: Scene, plan: Plan) -> None:
        self._names = scene.trace.device.name
        self._items = [item for item in plan.items if item.ops]
        self._starts = [item.start for item in self._items]

    def of(self, start: int, end: int) -> tuple[int, int]:
        before = bisect_left(self._starts, start) - 1
        after = bisect_left(self._starts, end)
        return self._name(before), self._name(after)

    def _name(self, position: int) -> int:
        if not 0 <= position < len(self._items):
            return -1
        row, *_ = self._items[position].ops[0]
        return int(self._names[row])


def _owner(request: RequestSpan, part: Part) -> Part | None:
    return request.parts[0] if part.is_unit and not request.parts[0].is_unit else None


def threshold(plan: Plan) -> float:
    """Nanoseconds from which on a pause of this request is a gap: beyond what lies between launches as a rule.

    Where there are few launches the rule says little, so it counts up to a twentieth of the request.
    """
    wall = plan.request.wall
    usual = float(np.median(np.maximum(plan.starts[1:-1] - plan.ends[1:-1], 0))) if len(plan.items) > 1 else 0.0
    return max(SHORTEST_NS, _LEAST_SHARE * wall, min(_TYPICAL * usual, _MOST_SHARE * wall))


def _pauses(plan: Plan) -> list[tuple[int, int]]:
    reached = np.maximum.accumulate(plan.ends)
    open_ = np.flatnonzero(plan.starts > reached)
    return list(zip(reached[open_].tolist(), plan.starts[open_].tolist(), strict=True))


def _part_at(request: RequestSpan, start: int, end: int) -> Part | None:
    """The part that holds most of a stretch: a unit's before the request's own thread."""
    held = [(min(p.end, end) - max(p.start, start), p.is_unit, bool(p.lanes), -i) for i, p in enumerate(request.parts)]
    held = [h for h in held if h[0] > 0]
    return request.parts[-max(held, key=lambda h: (h[1], h[2], h[0], h[3]))[3]] if held else None


def host_stretches(scene: Scene, request: RequestSpan) -> list[Stretch]:
    """Without a device: stretches of the request's threads in which no operator ran."""
    shortest = max(SHORTEST_CPU_NS, _LEAST_SHARE * request.wall)
    units = Cover.union(
        np.array([p.start for p in request.parts if p.is_unit], np.int64),
        np.array([p.end for p in request.parts if p.is_unit], np.int64),
    )
    found = []
    for part in request.parts:
        if part.is_unit or not len(units.starts):
            covered = scene.operators_of(part)
            holes = covered.holes(part.start, part.end)
        else:
            holes = units.holes(part.start, part.end)
        for start, end in holes:
            if end - start >= shortest:
                around = (_operator_before(scene, part, start), _operator_at(scene, part, end))
                found.append(
                    Stretch(request.index, part, start, end, end - start, False, _owner(request, part), around)
                )
    return found


def _operator_at(scene: Scene, part: Part, time: int) -> int:
    ops = scene.trace.ops
    first, last = np.searchsorted(ops.start, [time, time + 1], side="left").tolist()
    names = ops.name[first:last][np.isin(ops.lane[first:last], part.lanes)]
    return int(names[0]) if len(names) else -1


def _operator_before(scene: Scene, part: Part, time: int) -> int:
    ops = scene.trace.ops
    first, last = np.searchsorted(ops.start, [part.start, time], side="left").tolist()
    names = ops.name[first:last][np.isin(ops.lane[first:last], part.lanes)]
    return int(names[-1]) if len(names) else -1
