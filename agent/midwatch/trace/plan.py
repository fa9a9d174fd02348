"""One request as a plan that can be run again: what the host did in order, and what each piece of work waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from midwatch.trace.intervals import Floats, Ints, Mask
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


class Tie(NamedTuple):
    """What the start of few pieces of work depends on beside their launch and the work in front of them."""

    lane: int
    own: int
    """Work of the same request in front of it on its stream, -1 for none."""
    joined: int
    """Work on another stream that it seems to wait for, -1 for none."""
    after_joined: int
    stall: int
    """Delay that nothing explains; it stays, whatever is taken away."""


Op = tuple[int, int, int, int, int, int, Tie | None]
"""One piece of device work and its lags behind what it waits for. Rows are rows of ``trace.device``.

Its row; its length; how long after its launch it starts at the earliest; the row of the work in front of it on its
stream, -1 for none; the end of that; how long after it this starts at the earliest; and what else it depends on. A
plain tuple, since a replay unpacks millions, and those with names are unpacked at half the speed.
"""


class Item(NamedTuple):
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


@dataclass(frozen=True)
class Plan:
    """A request's items in order of time."""

    request: RequestSpan
    items: tuple[Item, ...]
    works: Ints
    """Device work of all items in order."""
    overhang: int
    """How long after the request's end its device work went on."""
    recording: float = 0.0
    """As in `Item`, of the time after the last one."""
    others: Mapping[int, Queue] = field(default_factory=dict)
    """Work of others on the same streams meanwhile, by stream."""

    @cached_property
    def starts(self) -> Ints:
        """Start of each item, and of nothing at the end of the request."""
        return np.array([*(item.start for item in self.items), self.request.end], np.int64)

    @cached_property
    def ends(self) -> Ints:
        """Start of the request, and end of each item."""
        return np.array([self.request.start, *(item.end for item in self.items)], np.int64)

    @cached_property
    def work(self) -> tuple[tuple[Op, ...], ...]:
        """Device work of each item."""
        return tuple(item.ops for item in self.items)

    @cached_property
    def items_of_works(self) -> Ints:
        """Position in ``items`` of each of ``works``."""
        return np.repeat(np.arange(len(self.items)), [len(ops) for ops in self.work])

    @cached_property
    def shares(self) -> Floats:
        """Share of recording in the host's time before each item, and after the last one."""
        return np.array([*(item.recording for item in self.items), self.recording], np.float64)

    @cached_property
    def waits(self) -> tuple[int, ...]:
        """Index of the wait that each item is, -1 for a plain launch."""
        return tuple(item.wait for item in self.items)

    @cached_property
    def launches(self) -> Mask:
        """Items that are plain launches."""
        return np.array(self.waits, np.int64) < 0


@dataclass(frozen=True, slots=True)
class Timing:
    """What is normal on this machine, over the whole trace, and how the device's rows follow each other."""

    latency: int
    """Nanoseconds from a launch call to the start of its work on an idle stream."""
    spacing: int
    """Nanoseconds between two pieces of work that stand in line."""
    before: Ints
    """Work in front of each device row on its stream, -1 for none."""
    by_end: Ints
    """Device rows in order of their end."""
    ends: Ints
    """Ends in that order."""


def measure(scene: Scene) -> Timing:
    """Look at all linked work once."""
    device, links = scene.trace.device, scene.links
    before = np.full(len(device), -1, np.int64)
    order = np.argsort(device.lane, kind="stable")  # rows are in order of start
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
        before=before,
        by_end=by_end,
        ends=device.end[by_end],
    )


def make_plan(scene: Scene, timing: Timing, request: RequestSpan, mine: list[tuple[int, Wait]]) -> Plan:
    """Plan one request; ``mine`` are its waits with their indexes."""
    runtime, device, links = scene.trace.runtime, scene.trace.device, scene.links
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
    works = np.array([row for call in calls for row in call[2]], np.int64)
    launched = np.array([call[0] for call in calls for _ in call[2]], np.int64)
    others = queues_of_others(scene, request, works)
    ops = iter(_ops(scene, timing, works, launched, list(others)))
    items = tuple(
        Item(
            start,
            end,
            tuple(islice(ops, len(rows))),
            wait,
            work,
            int(device.end[work]) if work >= 0 else 0,
            share,
        )
        for (start, end, rows, wait, work), share in zip(calls, shares, strict=False)
    )
    last = int(device.end[works].max()) if len(works) else 0
    return Plan(
        request,
        items,
        works,
        max(0, last - request.end),
        shares[-1],
        others,
    )


def _recording(scene: Scene, request: RequestSpan, calls: list[tuple[int, int, list[int], int, int]]) -> list[float]:
    """Share of recording in the host's time up to the end of each launch, or the start of each wait, and after all."""
    stops = [start if wait >= 0 else end for start, end, _, wait, _ in calls]
    starts = np.array([request.start, *(call[1] for call in calls)], np.int64)
    bounds = np.array([request.start, *stops, request.end], np.int64)
    lengths = bounds[1:] - starts
    cost = recording_cost(scene, request, np.maximum.accumulate(bounds))
    shares: list[float] = np.where(lengths > 0, np.minimum(cost / np.maximum(lengths, 1), 1.0), 0.0).tolist()
    return shares


def _ops(scene: Scene, timing: Timing, rows: Ints, launched: Ints, shared: list[int]) -> list[Op]:
    """Say of each device row, launched at a time, what it waited for; ``shared`` are lanes that others used too."""
    device = scene.trace.device
    start, lane, front = device.start[rows], device.lane[rows], timing.before[rows]
    front_end = np.where(front >= 0, device.end[front], launched)
    lag, gap = start - launched, start - front_end
    latency, spacing = np.minimum(timing.latency, lag), np.minimum(timing.spacing, gap)
    ready, free = launched + latency, front_end + spacing
    slack = start - np.maximum(ready, free)
    joined, after_joined = _joined(scene, timing, rows, slack > _UNEXPLAINED_NS)
    alone = joined < 0
    stalled = alone & (slack > _STALL_NS)
    explained = alone & ~stalled
    stall = np.where(stalled, slack, 0)
    ties: list[Tie | None] = [None] * len(rows)
    tied = np.flatnonzero(~alone | stalled | np.isin(lane, shared))
    apart = (lane, _own_order(rows, start, lane), joined, after_joined, stall)
    for at, *tie in zip(tied.tolist(), *(column[tied].tolist() for column in apart), strict=True):
        ties[at] = Tie(*tie)
    columns = (
        rows,
        device.end[rows] - start,
        np.where(explained & (ready >= free), lag, latency),
        front,
        front_end,
        np.where(explained & (ready < free), gap, spacing),
    )
    return list(zip(*(column.tolist() for column in columns), ties, strict=True))


def _own_order(rows: Ints, start: Ints, lane: Ints) -> Ints:
    """For each piece of work the one before it of the same request on its stream, -1 for none."""
    own = np.full(len(rows), -1, np.int64)
    order = np.lexsort((start, lane))
    same = lane[order][1:] == lane[order][:-1]
    own[order[1:][same]] = rows[order[:-1][same]]
    return own


def _joined(scene: Scene, timing: Timing, rows: Ints, asked: Mask) -> tuple[Ints, Ints]:
    """Work on another stream that ended just before each of the ``asked``, and the time in between; -1 for none."""
    device = scene.trace.device
    joined, after = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64)
    at = np.searchsorted(timing.ends, device.start[rows], side="right") - 1
    if len(rows):
        other = timing.by_end[np.maximum(at, 0)]
        gap = device.start[rows] - device.end[other]
        found = asked & (at >= 0) & (device.lane[other] != device.lane[rows]) & (gap <= _JOINED_NS)
        joined[found], after[found] = other[found], gap[found]
    return joined, after
