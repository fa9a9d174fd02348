"""The device lane as a whole: busy by class of work, idle by reason, queue depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from midwatch.model.trace import ClassTime, DeviceFacts
from midwatch.trace import apis
from midwatch.trace.columns import KERNEL, MEMCPY, MEMSET, whole
from midwatch.trace.intervals import Cover, Ints, pick, rows_by
from midwatch.trace.kernels import family_of
from midwatch.trace.scene import Scene
from midwatch.trace.waits import Wait

SMALL_NS = 10_000


@dataclass(frozen=True, slots=True)
class Idle:
    """Nanoseconds for which the device had nothing to do, by reason."""

    host_late: int = 0
    latency: int = 0
    waiting: int = 0
    unknown: int = 0


def device_facts(scene: Scene, waits: list[Wait]) -> DeviceFacts:
    """Describe all devices together, from the first piece of work to the last."""
    trace, links = scene.trace, scene.links
    launches = int(links.launches.sum())
    lost = int(links.missing.sum())
    graphs = int(((links.kinds == apis.GRAPH) & ~links.captured).sum())
    if not scene.has_device:
        return DeviceFacts(
            names=device_names(scene),
            launches=launches,
            graph_launches=graphs,
            launches_without_kernel=lost,
            syncs=len(waits),
        )
    device = trace.device
    length = device.end - device.start
    kernels = device.kind == KERNEL
    copies = device.kind == MEMCPY
    idle = idle_by_reason(scene)
    depth_mean, depth_max = _queue_depth(scene)
    span = int(device.end.max() - device.start.min())
    return DeviceFacts(
        present=True,
        names=device_names(scene),
        busy_ms=scene.busy.total / 1e6,
        idle_ms=(span - scene.busy.total) / 1e6,
        idle_host_late_ms=idle.host_late / 1e6,
        idle_launch_latency_ms=idle.latency / 1e6,
        idle_waiting_ms=idle.waiting / 1e6,
        idle_unknown_ms=idle.unknown / 1e6,
        classes=_classes(scene),
        launches=launches,
        graph_launches=graphs,
        kernels=int(kernels.sum()),
        small_kernels=int((kernels & (length < SMALL_NS)).sum()),
        syncs=len(waits),
        copies=int(copies.sum()),
        copy_bytes=int(np.maximum(device.size[copies], 0).sum()),
        median_kernel_us=float(np.median(length[kernels])) / 1e3 if kernels.any() else 0.0,
        queue_depth_mean=depth_mean,
        queue_depth_max=depth_max,
        launches_without_kernel=lost,
    )


def device_names(scene: Scene) -> tuple[str, ...]:
    """Names of the devices that did something, or of all where that cannot be told."""
    properties = scene.trace.head.devices
    if not isinstance(properties, list):
        return ()
    used = {key[1] for key in scene.trace.lanes if key[0] == "device"}
    named = [(p.get("id"), str(p.get("name", ""))) for p in properties if isinstance(p, dict)]
    mine = [name for number, name in named if whole(number) in used and name]
    return tuple(dict.fromkeys(mine or [name for _, name in named if name]))


def idle_by_reason(scene: Scene) -> Idle:
    """Split each hole between two pieces of work: not launched yet, launched and on its way, or unknown."""
    busy = scene.busy
    if len(busy.starts) < 2:
        return Idle()
    a, b = busy.ends[:-1], busy.starts[1:]
    device, links = scene.trace.device, scene.links
    following = np.minimum(np.searchsorted(device.start, b, side="left"), len(device) - 1)
    call = links.launcher[following]
    launched = pick(scene.trace.runtime.start, call, b)
    late_until = np.clip(launched, a, b)
    known = call >= 0
    under_way = _requests(scene)
    late_inside = under_way.within(a, late_until)
    late = int(np.where(known, late_inside, 0).sum())
    waiting = int(np.where(known, (late_until - a) - late_inside, 0).sum())
    latency = int(np.where(known, b - late_until, 0).sum())
    outside = (b - a) - under_way.within(a, b)
    waiting += int(np.where(known, 0, outside).sum())
    unknown = int(np.where(known, 0, (b - a) - outside).sum())
    return Idle(late, latency, waiting, unknown)


def _requests(scene: Scene) -> Cover:
    spans = scene.spans.requests
    return Cover.union(np.array([r.start for r in spans], np.int64), np.array([r.end for r in spans], np.int64))


def class_of(kind: int, name: str) -> str:
    """Class of one piece of work, as in `ClassTime`."""
    if kind == MEMSET:
        return "memset"
    if kind == MEMCPY:
        for mark, found in (("HtoD", "copy_h2d"), ("DtoH", "copy_d2h")):
            if mark in name:
                return found
        return "copy_d2d"
    return "collective" if family_of(name) == "collective" else "compute"


def _classes(scene: Scene) -> tuple[ClassTime, ...]:
    device, names = scene.trace.device, scene.trace.names
    rows: dict[str, list[Ints]] = {}
    for pair, found in rows_by(device.kind * len(names) + device.name):
        kind, number = divmod(pair, len(names))
        rows.setdefault(class_of(kind, names[number]), []).append(found)
    facts = []
    for name, parts in rows.items():
        all_rows = np.concatenate(parts)
        total = Cover.union(device.start[all_rows], device.end[all_rows]).total
        facts.append(ClassTime(name, total / 1e6, len(all_rows)))
    return tuple(sorted(facts, key=lambda c: -c.total_ms))


def _queue_depth(scene: Scene) -> tuple[float, int]:
    """Mean over time, and maximum, of the work launched and not yet finished."""
    linked = np.flatnonzero(scene.links.launcher >= 0)
    if not len(linked):
        return 0.0, 0
    launched = scene.trace.runtime.start[scene.links.launcher[linked]]
    # The clocks of host and device are apart by microseconds: work may seem to end before it was launched.
    ended = np.maximum(scene.trace.device.end[linked], launched)
    times = np.concatenate([launched, ended])
    change = np.concatenate([np.ones(len(linked), np.int64), -np.ones(len(linked), np.int64)])
    order = np.lexsort((change, times))
    depth = np.cumsum(change[order])
    width = np.diff(times[order])
    span = int(times.max() - times.min())
    mean = float((depth[:-1] * width).sum() / span) if span else 0.0
    return mean, int(depth.max())
