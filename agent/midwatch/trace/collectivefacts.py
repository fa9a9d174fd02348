"""Device time in collectives: how much of it nothing else hides, and whether the host waited for it."""

from __future__ import annotations

import statistics

import numpy as np

from midwatch.model.trace import CollectiveFacts
from midwatch.trace.columns import KERNEL, whole
from midwatch.trace.intervals import Cover
from midwatch.trace.kernels import base_name, family_of
from midwatch.trace.scene import Scene
from midwatch.trace.waits import Wait

_MOST_NAMES = 4


def collective_facts(scene: Scene, waits: list[Wait]) -> CollectiveFacts | None:
    """Describe the collectives inside whole requests; None where there were none.

    A collective runs from the arrival of this rank until all have arrived and the data has moved, so its time is
    waiting and transfer in one. Work of every stream counts by when it ran, launched in the request or before.
    """
    device, names = scene.trace.device, scene.trace.names
    numbers = [n for n in np.unique(device.name[device.kind == KERNEL]).tolist() if family_of(names[n]) == "collective"]
    mine = np.isin(device.name, numbers) & (device.kind == KERNEL)
    if not mine.any():
        return None
    together = Cover.union(device.start[mine], device.end[mine])
    others = Cover.union(device.start[~mine], device.end[~mine])
    totals: dict[str, int] = {}
    for number in numbers:
        rows = mine & (device.name == number)
        name = base_name(names[number])
        totals[name] = totals.get(name, 0) + int((device.end[rows] - device.start[rows]).sum())
    figures = []
    count = 0
    for request in scene.spans.fair:
        stretches = together.clipped(request.start, request.end)
        if not stretches:
            continue
        count += int((mine & (device.start < request.end) & (device.end > request.start)).sum())
        hidden = sum(others.inside(a, b) for a, b in stretches)
        length = sum(b - a for a, b in stretches)
        held = Cover.union(
            np.array([w.start for w in waits if request.index in w.requests], np.int64),
            np.array([w.end for w in waits if request.index in w.requests], np.int64),
        )
        figures.append((length, length - hidden, sum(held.inside(a, b) for a, b in stretches)))
    if not figures:
        return None
    told = scene.trace.head.distributed
    return CollectiveFacts(
        count=count,
        requests_affected=len(figures),
        per_request_ms=statistics.median(f[0] for f in figures) / 1e6,
        exposed_ms=statistics.median(f[1] for f in figures) / 1e6,
        host_wait_ms=statistics.median(f[2] for f in figures) / 1e6,
        names=tuple(sorted(totals, key=lambda name: -totals[name])[:_MOST_NAMES]),
        world_size=max(whole(told.get("world_size"), 0), 0) if isinstance(told, dict) else 0,
    )
