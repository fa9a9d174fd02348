"""Figures of each whole request."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from midwatch.model.trace import RequestFacts
from midwatch.trace.columns import KERNEL, MEMCPY
from midwatch.trace.devicefacts import SMALL_NS
from midwatch.trace.intervals import Cover
from midwatch.trace.pauses import Pause
from midwatch.trace.scene import Scene
from midwatch.trace.spans import RequestSpan
from midwatch.trace.waits import Wait

MOST = 64


def request_facts(
    scene: Scene, waits: list[Wait], pauses: list[Pause], blocked: dict[int, int]
) -> tuple[RequestFacts, ...]:
    """Describe at most `MOST` whole requests in order of time, the slowest among them.

    Args:
        scene: The trace.
        waits: All waits of the trace.
        pauses: All collections.
        blocked: Nanoseconds for which each request's host was seen blocked, by index.
    """
    whole = scene.spans.whole
    if not whole:
        return ()
    slowest = max(scene.spans.fair, key=lambda r: r.wall)
    chosen = whole if len(whole) <= MOST else _thinned(whole, slowest)
    waited: dict[int, list[Wait]] = {}
    for wait in waits:
        for index in wait.requests:
            waited.setdefault(index, []).append(wait)
    return tuple(
        _fact(scene, r, waited.get(r.index, []), pauses, blocked.get(r.index, 0), is_slowest=r is slowest)
        for r in chosen
    )


def _thinned(whole: tuple[RequestSpan, ...], slowest: RequestSpan) -> tuple[RequestSpan, ...]:
    kept = {whole[i * len(whole) // MOST].index: whole[i * len(whole) // MOST] for i in range(MOST - 1)}
    kept[slowest.index] = slowest
    return tuple(sorted(kept.values(), key=lambda r: r.start))


def _fact(
    scene: Scene, request: RequestSpan, waits: list[Wait], pauses: Iterable[Pause], blocked: int, *, is_slowest: bool
) -> RequestFacts:
    device, links = scene.trace.device, scene.links
    calls = scene.runtime_of(request)
    launched = calls[links.works[calls] > 0]
    works = np.flatnonzero(np.isin(links.launcher, launched))
    kernels = works[device.kind[works] == KERNEL]
    copies = works[device.kind[works] == MEMCPY]
    waited = Cover.union(
        np.array([max(w.start, request.start) for w in waits], np.int64),
        np.array([min(w.end, request.end) for w in waits], np.int64),
    ).total
    worked = Cover.union(
        np.array([p.start for p in request.parts if p.lanes], np.int64),
        np.array([p.end for p in request.parts if p.lanes], np.int64),
    ).total
    return RequestFacts(
        route=request.route,
        start_ms=scene.ms(request.start),
        wall_ms=request.wall / 1e6,
        thread_id=request.thread_id,
        host_busy_ms=max(0, worked - waited - blocked) / 1e6,
        device_busy_ms=_busy(scene, request) / 1e6,
        wait_ms=waited / 1e6,
        launches=int(links.launches[calls].sum()),
        kernels=len(kernels),
        small_kernels=int((device.end[kernels] - device.start[kernels] < SMALL_NS).sum()),
        syncs=len(waits),
        copies=len(copies),
        copy_bytes=int(np.maximum(device.size[copies], 0).sum()),
        gc_ms=sum(max(0, min(p.end, request.end) - max(p.start, request.start)) for p in pauses) / 1e6,
        op_ms=scene.operators(request).total / 1e6,
        workload=request.workload,
        slowest=is_slowest,
        shared=request.shared,
    )


def _busy(scene: Scene, request: RequestSpan) -> int:
    return scene.busy.inside(request.start, request.end)
