"""Waits of the host for the device, found where they show: a blocking copy hides its wait in the copy call itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from midwatch.trace import apis
from midwatch.trace.intervals import Ints, pick, rows_by
from midwatch.trace.scene import Scene

CALL_NS = 20_000
"""A call of the runtime that returns within this time has not waited."""
PINNED_CALL_NS = 50_000
_MERGE_NS = 200_000
"""A stream synchronize so soon after a copy on the same thread is that copy's own wait."""
_ITEM_BYTES = 16
_LOOK_BACK = (64, 8192)
"""Device rows looked through for the work that a wait saw end: the nearest as a rule, and many at most."""
_SLACK_NS = 3_000
"""Clock difference of host and device that is tolerated between the end of the work and the end of the wait."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait. ``work`` is the device row that had to end first, -1 where it is not known."""

    lane: int
    start: int
    end: int
    cause: str
    api: str
    rows: tuple[int, ...]
    """Runtime rows that make it up."""
    work: int
    bytes: int = 0
    requests: tuple[int, ...] = ()
    """Indexes of the requests that waited."""
    launches_after: int = 0
    """Launches and copies that were still made afterwards in the request that had fewest left.

    A batcher serves one batch after the other: what hands over the results of one is followed by the launches of the
    next, but not in the requests that it hands over.
    """
    launches_before: int = 0
    """Launches and copies made before it in the request that had made fewest: its place among them."""

    @property
    def followed(self) -> bool:
        """True where more device work follows in one of the requests; else it hands over a result."""
        return self.launches_after > 0

    @property
    def length(self) -> int:
        """Nanoseconds."""
        return self.end - self.start


def find_waits(scene: Scene) -> list[Wait]:
    """All waits of the trace in order of time, each with its requests."""
    runtime, kinds = scene.trace.runtime, scene.links.kinds
    interesting = np.isin(kinds, (*apis.WAITS, apis.MEMCPY, apis.FREE, apis.LAUNCH, apis.GRAPH))
    waits: list[Wait] = []
    for _, rows in rows_by(runtime.lane, np.flatnonzero(interesting)):
        waits += _on_lane(scene, rows)
    return _with_requests(scene, sorted(waits, key=lambda w: w.start))


def _on_lane(scene: Scene, rows: Ints) -> list[Wait]:
    kinds = scene.links.kinds
    waits = []
    listed = rows.tolist()
    skip = False
    for here, row in enumerate(listed):
        if skip:
            skip = False
            continue
        kind = int(kinds[row])
        following = listed[here + 1] if here + 1 < len(listed) else -1
        wait = None
        if kind == apis.MEMCPY:
            wait = _copy(scene, row, following)
            skip = wait is not None and len(wait.rows) == 2
        elif kind in apis.WAITS:
            wait = _explicit(scene, row, kind)
        elif kind == apis.FREE:
            wait = _free(scene, row)
        if wait is not None:
            waits.append(wait)
    return waits


def _copy(scene: Scene, row: int, following: int) -> Wait | None:
    trace, links = scene.trace, scene.links
    runtime = trace.runtime
    start, end = int(runtime.start[row]), int(runtime.end[row])
    merged = (
        following >= 0
        and int(links.kinds[following]) == apis.STREAM_SYNC
        and int(runtime.start[following]) - end < _MERGE_NS
    )
    api = trace.names[int(runtime.name[row])]
    work = int(links.first[row])
    if work < 0:
        return None
    name = trace.names[int(trace.device.name[work])]
    size = int(trace.device.size[work])
    cause = _copy_cause(name, api, size)
    if cause is None:
        return None
    pinned = "Pinned" in name
    inside = int(trace.device.end[work]) <= end + _SLACK_NS
    blocking = inside and end - start > (PINNED_CALL_NS if pinned else CALL_NS)
    if not merged and not blocking:
        return None
    if merged:
        return Wait(
            int(runtime.lane[row]), start, int(runtime.end[following]), cause, api, (row, following), work, max(size, 0)
        )
    return Wait(int(runtime.lane[row]), start, end, cause, api, (row,), work, max(size, 0))


def _copy_cause(name: str, api: str, size: int) -> str | None:
    """Cause of a wait in a copy; None for a copy inside the device, for which nobody waits."""
    if "HtoD" in name or "HostToDevice" in name:
        return "h2d_pageable"
    # ROCm files what `.item()` reads back under device to device; only the call says that the host waits for it.
    if "DtoH" in name or "DeviceToHost" in name or "WithStream" in api:
        return "item" if 0 <= size <= _ITEM_BYTES else "d2h"
    return None


def _explicit(scene: Scene, row: int, kind: int) -> Wait:
    runtime = scene.trace.runtime
    start, end = int(runtime.start[row]), int(runtime.end[row])
    stream = _stream_of(scene, row) if kind == apis.STREAM_SYNC else -1
    work = _awaited(scene, start, end, stream)
    api = scene.trace.names[int(runtime.name[row])]
    return Wait(int(runtime.lane[row]), start, end, apis.WAITS[kind], api, (row,), work)


def _free(scene: Scene, row: int) -> Wait | None:
    """Freeing device memory waits for the device; told from a slow call by device work that ends inside it."""
    runtime = scene.trace.runtime
    start, end = int(runtime.start[row]), int(runtime.end[row])
    if end - start < CALL_NS or scene.busy.inside(start, end) * 2 < end - start:
        return None
    api = scene.trace.names[int(runtime.name[row])]
    return Wait(int(runtime.lane[row]), start, end, "free", api, (row,), _awaited(scene, start, end, -1))


def _stream_of(scene: Scene, row: int) -> int:
    """Device lane that a stream synchronize waits for, from its ``cuda_sync`` record; -1 where there is none."""
    sync = scene.trace.sync
    at = int(np.searchsorted(sync.link, scene.trace.runtime.link[row], sorter=scene.sync_by_link))
    if at == len(sync) or sync.link[scene.sync_by_link[at]] != scene.trace.runtime.link[row]:
        return -1
    lane = int(sync.lane[scene.sync_by_link[at]])
    return lane if lane in scene.device_lanes else -1


def _awaited(scene: Scene, start: int, end: int, stream: int) -> int:
    """The device row whose end the wait saw: the last one launched before the wait that ended before it did."""
    device, links = scene.trace.device, scene.links
    stop = int(np.searchsorted(device.start, end, side="right"))
    if not stop:
        return -1
    for back in _LOOK_BACK:
        near = slice(max(0, stop - back), stop)
        launcher = links.launcher[near]
        launched = pick(scene.trace.runtime.start, launcher, device.start[near])
        fits = (device.end[near] <= end + _SLACK_NS) & (launched <= start)
        if stream >= 0:
            fits &= device.lane[near] == stream
        rows = near.start + np.flatnonzero(fits)
        last = int(rows[device.end[rows].argmax()]) if len(rows) else -1
        if not near.start or (last >= 0 and device.end[last] > scene.reach[near.start - 1]):
            return last  # nothing further back ended later
    return last


def _with_requests(scene: Scene, waits: list[Wait]) -> list[Wait]:
    runtime = scene.trace.runtime
    owners: list[list[int]] = [[] for _ in waits]
    before: list[list[int]] = [[] for _ in waits]
    after: list[list[int]] = [[] for _ in waits]
    working = scene.links.launches | ((scene.links.works > 0) & (scene.links.kinds != apis.OTHER))
    starts = np.array([w.start for w in waits], np.int64)
    for request in scene.spans.requests:
        mine = scene.runtime_of(request)
        first, last = np.searchsorted(starts, [request.start, request.end], side="left").tolist()
        launches = runtime.start[mine[working[mine]]]
        held = set(mine.tolist())
        for i in range(first, last):
            if waits[i].rows[0] in held:
                owners[i].append(request.index)
                before[i].append(int(np.searchsorted(launches, waits[i].start, side="left")))
                after[i].append(len(launches) - int(np.searchsorted(launches, waits[i].end, side="left")))
    return [
        replace(w, requests=tuple(o), launches_before=min(b, default=0), launches_after=min(a, default=0))
        for w, o, b, a in zip(waits, owners, before, after, strict=True)
    ]
