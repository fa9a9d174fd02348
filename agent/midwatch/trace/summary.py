"""From a trace file to its facts: the composition of all that this package does."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from pathlib import Path

from midwatch.model.trace import TraceSummary, Window
from midwatch.trace.caveats import find_caveats
from midwatch.trace.ceiling import MEMORY_BYTES
from midwatch.trace.collectivefacts import collective_facts
from midwatch.trace.copyfacts import copy_facts
from midwatch.trace.devicefacts import device_facts
from midwatch.trace.gains import Gains
from midwatch.trace.gaps import Piece, adopt, divide, gap_facts
from midwatch.trace.hostfacts import alloc_facts, compile_facts, lock_facts, op_facts
from midwatch.trace.jointwaits import joint_wait_facts
from midwatch.trace.kernels import kernel_facts
from midwatch.trace.launchfacts import launch_facts
from midwatch.trace.load import Trace, load
from midwatch.trace.nogc import without_gc
from midwatch.trace.pauses import find_pauses, gc_facts
from midwatch.trace.plan import Plan, make_plan, measure
from midwatch.trace.requestfacts import request_facts
from midwatch.trace.sane import LAST_NS
from midwatch.trace.scene import Scene, build_scene
from midwatch.trace.shorten import shorten
from midwatch.trace.source import Progress
from midwatch.trace.stallfacts import graph_break_facts, loader_facts
from midwatch.trace.stretches import device_stretches, host_stretches
from midwatch.trace.timefacts import time_facts
from midwatch.trace.timeline import timeline
from midwatch.trace.waitfacts import wait_facts
from midwatch.trace.waits import Wait, find_waits
from midwatch.trace.waitsites import locate
from midwatch.trace.workloads import workload_of

_KNOWN_REQUESTS = 20
_PLANNED = 256
"""Requests whose time is divided up; more do not change what is found."""


def summarise(
    path: str | os.PathLike[str],
    *,
    untraced_p50_ms: float | None = None,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress | None = None,
) -> TraceSummary:
    """Read a Kineto trace and return its facts.

    Args:
        path: A ``.json`` or ``.json.gz`` file.
        untraced_p50_ms: Median latency of the requests without a profiler. Left out, it is taken from the agent's own
            tracks in the file where there are any.
        memory_bytes: What reading may take in all, the interpreter included; at least 128 MiB. A trace that needs more
            is cut in time, and a caveat says where.
        progress: Called now and then with the bytes of the file read so far, and its size.

    Returns:
        The summary; whatever limits its figures is among ``window.caveats``.

    Raises:
        TraceError: The file cannot be read as a trace; one sentence.
    """
    with without_gc():
        trace = load(Path(path), memory_bytes=memory_bytes, progress=progress)
        return summarise_trace(trace, untraced_p50_ms=untraced_p50_ms)


def summarise_trace(trace: Trace, *, untraced_p50_ms: float | None = None) -> TraceSummary:
    """Return the facts of a trace that has been read, with its texts cut so that they can travel."""
    return shorten(_facts(trace, untraced_p50_ms))


def _facts(trace: Trace, untraced_p50_ms: float | None) -> TraceSummary:
    scene = build_scene(trace)
    untraced = untraced_p50_ms if untraced_p50_ms is not None else _ledger_p50(scene)
    waits = find_waits(scene)
    pauses = find_pauses(scene)
    plans = _plans(scene, waits)
    usual = {request.index for request in scene.main}
    gains = Gains(plans, usual, untraced)
    pieces = adopt(
        [
            piece
            for plan in plans
            for stretch in (device_stretches(scene, plan) if plan.items else host_stretches(scene, plan.request))
            for piece in divide(scene, stretch, pauses)
        ]
    )
    whole = scene.spans.whole
    p50 = statistics.median(r.wall for r in scene.main) / 1e6 if scene.main else 0.0
    launched = [plan for plan in plans if plan.items and plan.request.index in usual]
    at_once, left = gains.launched_at_once() if launched else (0.0, 0.0)
    slowest = max(scene.spans.fair, key=lambda r: r.wall, default=None)
    return TraceSummary(
        file=trace.file,
        torch=str(trace.head.torch_version or "") or (trace.tracks.resource.torch if trace.tracks else ""),
        cuda=_cuda(trace),
        events=trace.events,
        window=Window(
            start_unix_ns=_moment(trace.base_ns + trace.origin_ns + scene.window[0]),
            duration_ms=(scene.window[1] - scene.window[0]) / 1e6,
            basis=scene.spans.basis,
            requests=len(scene.spans.fair),
            requests_cut=len(scene.spans.requests) - len(whole),
            lanes=_lanes(scene),
            untraced_factor=gains.factor,
            caveats=tuple(find_caveats(scene, untraced, gains)),
        ),
        device=device_facts(scene, waits),
        requests=request_facts(scene, waits, pauses, _blocked(pieces)),
        request_p50_ms=p50,
        waits=wait_facts(scene, locate(scene, waits), gains.without_waits),
        gaps=gap_facts(scene, pieces, gains.without_host),
        kernels=kernel_facts(scene),
        launch=launch_facts(scene, launched, waits, at_once, left),
        copies=copy_facts(scene),
        allocs=alloc_facts(scene, waits, gains.without_stops),
        gc=gc_facts(scene, pauses, gains.without_stops),
        locks=lock_facts(scene, gains.without_stops),
        compiles=compile_facts(scene, gains.without_stops),
        ops=op_facts(scene),
        timeline=timeline(scene, slowest, waits, pieces, pauses),
        time=time_facts(scene, pauses),
        workload=workload_of(scene),
        loader=loader_facts(scene, gains.without_host),
        breaks=graph_break_facts(scene, gains.without_host),
        collective=collective_facts(scene, waits),
        joint_waits=joint_wait_facts(scene, waits, gains.without_waits),
    )


def _plans(scene: Scene, waits: list[Wait]) -> list[Plan]:
    """Plans of the whole requests whose device work is all there, or that use no device.

    Where other requests use one, samples must tell what the host did in those that do not.
    """
    if {c.code for c in scene.trace.caveats} & {"truncated", "bounded"}:
        return []  # Kineto writes category after category: what is cut off may be the whole device lane.
    timing = measure(scene)
    mine: dict[int, list[tuple[int, Wait]]] = defaultdict(list)
    for index, wait in enumerate(waits):
        for request_index in wait.requests:
            mine[request_index].append((index, wait))
    hosts_alone = not (scene.device_expected or scene.has_device) or bool(scene.sites.samples)
    plans = []
    for request in scene.spans.fair[:_PLANNED]:
        rows = scene.runtime_of(request)
        if scene.complete(request) or (hosts_alone and not scene.links.launches[rows].any()):
            plans.append(make_plan(scene, timing, request, mine[request.index]))
    return plans


def _ledger_p50(scene: Scene) -> float | None:
    """Untraced latency of the main route, where the agent knows it well enough: its baseline is of one route."""
    tracks = scene.trace.tracks
    if tracks is None or scene.spans.basis != "ledger" or tracks.capture.baseline.requests < _KNOWN_REQUESTS:
        return None
    capture = tracks.capture
    if capture.route and scene.main and scene.main[0].route != capture.route:
        return None
    return capture.baseline.p50_ms or None


def _blocked(pieces: list[Piece]) -> dict[int, int]:
    found: dict[int, int] = defaultdict(int)
    for piece in pieces:
        if piece.host in {"blocked", "lock"}:
            found[piece.stretch.request] += piece.length
    return found


def _lanes(scene: Scene) -> tuple[str, ...]:
    trace = scene.trace
    present = {
        "host_ops": len(trace.ops) > 0,
        "runtime": len(trace.runtime) > 0,
        "device": scene.has_device,
        "sync": len(trace.sync) > 0,
        "python": len(trace.python) > 0,
        "ledger": scene.spans.basis == "ledger",
        "samples": bool(scene.sites.samples),
    }
    return tuple(name for name, there in present.items() if there)


def _moment(unix_ns: int) -> int:
    """Return a moment as it is, 0 for one that no clock shows: a file may claim anything."""
    return unix_ns if 0 <= unix_ns < LAST_NS else 0


def _cuda(trace: Trace) -> str:
    version = trace.head.cuda_runtime_version
    if isinstance(version, (int, float)) and version >= 1000:
        return f"{int(version) // 1000}.{int(version) % 1000 // 10}"
    return trace.tracks.resource.cuda if trace.tracks else ""
