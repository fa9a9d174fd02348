"""One request as a plan that can be run again: what the host did in order, and what each piece of work waited for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from midwatch.trace.intervals import Ints
from midwatch.trace.recording import recording_cost
from midwatch.trace.scene import Scene
from midwatch.trace.spans import RequestSpan
from midwatch.trace.waits import Wait

_JOINED_NS = 6_000
"""Work that starts so soon after the end of work on another stream is taken to have waited for it."""
_UNEXPLAINED_NS = 5_000
_STALL_NS = 100_000
"""A delay beyond this is no jitter of a launch: the device was not to be had, nor would it have been earlier."""
_NORMAL_LATENCY_NS = 30_000


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


@dataclass(frozen=True, slots=True)
class Timing:
    """What is normal on this machine, over the whole trace."""

    latency: int
    """Nanoseconds from a launch call to the start of its work on an idle stream."""
    spacing: int
    """Nanoseconds between two pieces of work that stand in line."""
    before: Ints
    """Work in front of each device row on its stream, -1 for none."""
    by_end: Ints
    ends: Ints


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
    idle, queued = front < launched, front > returned + 20_000
    latency = int(np.percentile(lag[idle], 10)) if idle.any() else 6_000
    spacing = int(np.median(gap[queued & (gap >= 0)])) if (queued & (gap >= 0)).any() else 1_000
    by_end = np.argsort(device.end, kind="stable")
    return Timing(min(max(latency, 0), _NORMAL_LATENCY_NS), spacing, before, by_end, device.end[by_end])


def make_plan(scene: Scene, timing: Timing, request: RequestSpan, mine: list[tuple[int, Wait]]) -> Plan:
    """Plan one request; ``mine`` are its waits with their indexes."""
    runtime, links = scene.trace.runtime, scene.links
    rows = scene.runtime_of(request)
    inside = {row for _, w in mine for row in w.rows}
    items = []
    for index, wait in mine:
        ops = tuple(_op(scene, timing, row, wait.start) for call in wait.rows for row in links.works_of(call))
        work_end = int(scene.trace.device.end[wait.work]) if wait.work >= 0 else 0
        items.append(Item(wait.start, wait.end, ops, index, wait.work, work_end))
    for row in rows[links.works[rows] > 0].tolist():
        if row not in inside:
            start, end = int(runtime.start[row]), int(runtime.end[row])
            items.append(Item(start, end, tuple(_op(scene, timing, w, start) for w in links.works_of(row))))
    items.sort(key=lambda item: item.start)
    last = max((int(scene.trace.device.end[op.row]) for item in items for op in item.ops), default=0)
    shares = _recording(scene, request, items)
    timed = tuple(replace(item, recording=share) for item, share in zip(items, shares, strict=False))
    return Plan(request, timed, max(0, last - request.end), shares[-1])


def _recording(scene: Scene, request: RequestSpan, items: list[Item]) -> list[float]:
    """Share of recording in the host's time up to the end of each launch, or the start of each wait, and after all."""
    stops = [item.start if item.wait >= 0 else item.end for item in items]
    starts = [request.start, *(item.end for item in items)]
    bounds = np.maximum.accumulate(np.array([request.start, *stops, request.end], np.int64))
    cost = recording_cost(scene, request, bounds).tolist()
    lengths = [stop - start for start, stop in zip(starts, [*stops, request.end], strict=True)]
    return [min(c / length, 1.0) if length > 0 else 0.0 for c, length in zip(cost, lengths, strict=True)]


def _op(scene: Scene, timing: Timing, row: int, launched: int) -> Op:
    device = scene.trace.device
    start, end = int(device.start[row]), int(device.end[row])
    front = int(timing.before[row])
    front_end = int(device.end[front]) if front >= 0 else launched
    lag, gap = start - launched, start - front_end
    latency, spacing = min(timing.latency, lag), min(timing.spacing, gap)
    slack = start - max(launched + latency, front_end + spacing)
    joined, after_joined = _joined(scene, timing, row, start) if slack > _UNEXPLAINED_NS else (-1, 0)
    stall = 0
    if joined < 0:
        if slack > _STALL_NS:
            stall = slack
        elif launched + latency >= front_end + spacing:
            latency = lag
        else:
            spacing = gap
    return Op(row, end - start, latency, front, front_end, spacing, joined, after_joined, stall)


def _joined(scene: Scene, timing: Timing, row: int, start: int) -> tuple[int, int]:
    at = int(np.searchsorted(timing.ends, start, side="right")) - 1
    if at < 0:
        return -1, 0
    other = int(timing.by_end[at])
    device = scene.trace.device
    gap = start - int(device.end[other])
    if device.lane[other] == device.lane[row] or gap > _JOINED_NS:
        return -1, 0
    return other, gap
