"""One request as a plan that can be run again: what the host did in order, and what each piece of work waited for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from midwatch.trace.queues import Queue, queues_of_others
from midwatch.trace.recording import recording_cost
from midwatch.trace.scene import Scene
from midwatch.trace.spans import RequestSpan
from midwatch.trace.waits import Wait

_JOINED_NS = 6_000
"""Work that starts so soon after the end of work on another stream is taken to have waited for it."""
_UNEXPLAINED_NS = 5_000
_STALL_NS = 100_000
"""A delay beyond this is no jitter of a launch: the device was not to be had, nor would it have been earlier."""
_MOST_LATENCY_NS = 30_000
_QUEUED_NS = 20_000
_LATENCY_NS, _SPACING_NS = 6_000, 1_000
"""What is taken where a trace has nothing to measure them by."""


@dataclass(frozen=True, slots=True)
class Op:
    """One piece of device work and its lags behind what it waits for. Rows are rows of ``trace.device``."""

    row: int
    length: int
    after_launch: int
    before: int
    """Work in front of it on its stream, -1 for none."""
    before_end: int
    after_before: int
    own: int
    """Work of the same request in front of it on its stream, -1 for none."""
    lane: int
    joined: int
    """Work on another stream that it seems to wait for, -1 for none."""
    after_joined: int
    stall: int
    """Delay that nothing explains; it stays, whatever is taken away."""


@dataclass(frozen=True, slots=True)
class Item:
    """One call of the host: a launch, or a wait."""

    start: int
    end: int
    ops: tuple[Op, ...]
    wait: int = -1
    """Index of the wait, -1 for a plain launch."""
    work: int = -1
    """Device row whose end the wait saw, -1 where it is not known."""
    work_end: int = 0
    recording: float = 0.0
    """Share of the host's time since the item before that went into recording events."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A request's items in order of time."""

    request: RequestSpan
    items: tuple[Item, ...]
    overhang: int
    """How long after the request's end its device work went on."""
    recording: float = 0.0
    """As in `Item`, of the time after the last one."""
    others: Mapping[int, Queue] = field(default_factory=dict)
    """Work of others on the same streams meanwhile, by stream."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What is normal on this machine, over the whole trace, and the device's rows as plain lists."""

    latency: int
    """Nanoseconds from a launch call to the start of its work on an idle stream."""
    spacing: int
    """Nanoseconds between two pieces of work that stand in line."""
    start: list[int]
    end: list[int]
    lane: list[int]
    before: list[int]
    """Work in front of each device row on its stream, -1 for none."""
    by_end: list[int]
    """Device rows in order of their end."""
    ends: list[int]
    """Ends in that order."""


def measure(scene: Scene) -> Timing:
    """Look at all linked work once."""
    device, links = scene.trace.device, scene.links
    before = np.full(len(device), -1, np.int64)
    order = np.lexsort((device.start, device.lane))
    same = device.lane[order][1:] == device.lane[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    linked = np.flatnonzero((links.launcher >= 0) & (before >= 0))
    launched = scene.trace.runtime.start[links.launcher[linked]]
    returned = scene.trace.runtime.end[links.launcher[linked]]
    front = device.end[before[linked]]
    lag, gap = device.start[linked] - launched, device.start[linked] - front
    idle, queued = front < launched, (front > returned + _QUEUED_NS) & (gap >= 0)
    latency = int(np.percentile(lag[idle], 10)) if idle.any() else _LATENCY_NS
    spacing = int(np.median(gap[queued])) if queued.any() else _SPACING_NS
    by_end = np.argsort(device.end, kind="stable")
    return Timing(
        latency=min(max(latency, 0), _MOST_LATENCY_NS),
        spacing=spacing,
        start=device.start.tolist(),
        end=device.end.tolist(),
        lane=device.lane.tolist(),
        before=before.tolist(),
        by_end=by_end.tolist(),
        ends=device.end[by_end].tolist(),
    )


def make_plan(scene: Scene, timing: Timing, request: RequestSpan, mine: list[tuple[int, Wait]]) -> Plan:
    """Plan one request; ``mine`` are its waits with their indexes."""
    runtime, links = scene.trace.runtime, scene.links
    inside = {row for _, w in mine for row in w.rows}
    calls: list[tuple[int, int, list[int], int, int]] = [
        (wait.start, wait.end, [row for call in wait.rows for row in links.works_of(call)], index, wait.work)
        for index, wait in mine
    ]
    rows = scene.runtime_of(request)
    rows = rows[links.works[rows] > 0]
    calls += [
        (start, end, links.works_of(row), -1, -1)
        for row, start, end in zip(rows.tolist(), runtime.start[rows].tolist(), runtime.end[rows].tolist(), strict=True)
        if row not in inside
    ]
    calls.sort(key=lambda call: call[0])
    shares = _recording(scene, request, calls)
    works = [row for call in calls for row in call[2]]
    own = _own_order(timing, works)
    items = tuple(
        Item(
            start,
            end,
            tuple(_op(timing, row, start, own[row]) for row in rows),
            wait,
            work,
            timing.end[work] if work >= 0 else 0,
            share,
        )
        for (start, end, rows, wait, work), share in zip(calls, shares, strict=False)
    )
    last = max((timing.end[row] for row in works), default=0)
    return Plan(request, items, max(0, last - request.end), shares[-1], queues_of_others(scene, request, works))


def _own_order(timing: Timing, works: list[int]) -> dict[int, int]:
    """For each piece of work the one before it of the same request on its stream, -1 for none."""
    last: dict[int, int] = {}
    own = {}
    for row in sorted(works, key=lambda row: timing.start[row]):
        own[row] = last.get(timing.lane[row], -1)
        last[timing.lane[row]] = row
    return own


def _recording(scene: Scene, request: RequestSpan, calls: list[tuple[int, int, list[int], int, int]]) -> list[float]:
    """Share of recording in the host's time up to the end of each launch, or the start of each wait, and after all."""
    stops = [start if wait >= 0 else end for start, end, _, wait, _ in calls]
    starts = [request.start, *(call[1] for call in calls)]
    bounds = np.maximum.accumulate(np.array([request.start, *stops, request.end], np.int64))
    cost = recording_cost(scene, request, bounds).tolist()
    lengths = [stop - start for start, stop in zip(starts, [*stops, request.end], strict=True)]
    return [min(c / length, 1.0) if length > 0 else 0.0 for c, length in zip(cost, lengths, strict=True)]


def _op(timing: Timing, row: int, launched: int, own: int) -> Op:
    start, end, front = timing.start[row], timing.end[row], timing.before[row]
    front_end = timing.end[front] if front >= 0 else launched
    lag, gap = start - launched, start - front_end
    latency, spacing = min(timing.latency, lag), min(timing.spacing, gap)
    slack = start - max(launched + latency, front_end + spacing)
    joined, after_joined = _joined(timing, row) if slack > _UNEXPLAINED_NS else (-1, 0)
    stall = 0
    if joined < 0:
        if slack > _STALL_NS:
            stall = slack
        elif launched + latency >= front_end + spacing:
            latency = lag
        else:
            spacing = gap
    return Op(row, end - start, latency, front, front_end, spacing, own, timing.lane[row], joined, after_joined, stall)


def _joined(timing: Timing, row: int) -> tuple[int, int]:
    """Work on another stream that ended just before this one started, and the time in between."""
    start = timing.start[row]
    at = bisect_right(timing.ends, start) - 1
    if at < 0:
        return -1, 0
    other = timing.by_end[at]
    gap = start - timing.end[other]
    if timing.lane[other] == timing.lane[row] or gap > _JOINED_NS:
        return -1, 0
    return other, gap
