"""Stretches of a request in which the model's work stood still: where they are, before it is asked why."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from midwatch.trace.intervals import Cover
from midwatch.trace.plan import Plan
from midwatch.trace.scene import Scene
from midwatch.trace.spans import Part, RequestSpan

SHORTEST_NS = 100_000
"""A pause between two launches below this is dispatch, not a gap."""
SHORTEST_CPU_NS = 300_000
_SHARE = 0.02
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

    @property
    def length(self) -> int:
        """Nanoseconds."""
        return self.end - self.start


def device_stretches(scene: Scene, plan: Plan) -> list[Stretch]:
    """Long pauses between launches, from a plan, while the device had nothing to do."""
    request = plan.request
    pauses = _pauses(plan)
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
            found.append(Stretch(request.index, part, start, end, idle, device=True))
    return found


def threshold(plan: Plan) -> float:
    """Nanoseconds from which on a pause of this request is a gap."""
    lengths = [end - start for start, end in _pauses(plan)]
    typical = statistics.median(lengths) if lengths else 0
    return max(SHORTEST_NS, _TYPICAL * typical, _SHARE * plan.request.wall)


def _pauses(plan: Plan) -> list[tuple[int, int]]:
    found = []
    at = plan.request.start
    for item in plan.items:
        if item.start > at:
            found.append((at, item.start))
        at = max(at, item.end)
    if plan.request.end > at:
        found.append((at, plan.request.end))
    return found


def _part_at(request: RequestSpan, start: int, end: int) -> Part | None:
    """The part that holds most of a stretch: a unit's before the request's own thread."""
    held = [(min(p.end, end) - max(p.start, start), p.is_unit, bool(p.lanes), -i) for i, p in enumerate(request.parts)]
    held = [h for h in held if h[0] > 0]
    return request.parts[-max(held, key=lambda h: (h[1], h[2], h[0], h[3]))[3]] if held else None


def host_stretches(scene: Scene, request: RequestSpan) -> list[Stretch]:
    """Without a device: stretches of the request's threads in which no operator ran."""
    shortest = max(SHORTEST_CPU_NS, _SHARE * request.wall)
    units = Cover.union(
        np.array([p.start for p in request.parts if p.is_unit], np.int64),
        np.array([p.end for p in request.parts if p.is_unit], np.int64),
    )
    found = []
    for part in request.parts:
        if part.is_unit or not len(units.starts):
            covered = _operators(scene, part)
            holes = covered.holes(part.start, part.end)
        else:
            holes = units.holes(part.start, part.end)
        for start, end in holes:
            if end - start >= shortest:
                found.append(Stretch(request.index, part, start, end, end - start, device=False))
    return found


def _operators(scene: Scene, part: Part) -> Cover:
    ops = scene.trace.ops
    first, last = np.searchsorted(ops.start, [part.start, part.end], side="left").tolist()
    mine = first + np.flatnonzero(np.isin(ops.lane[first:last], part.lanes))
    return Cover.union(ops.start[mine], np.minimum(ops.end[mine], part.end))
