"""What a reader of the figures must know: lanes that are missing, records that were lost, costs that are still inside."""

from __future__ import annotations

import numpy as np

from midwatch.model.trace import Caveat
from midwatch.trace.scene import Scene

_OVERHEAD_NS = 100_000
_NO_HOST_SHARE = 0.01


def find_caveats(scene: Scene, untraced_p50_ms: float | None, traced_p50_ms: float, factor: float) -> list[Caveat]:
    """All caveats that the joined trace shows, the gravest first."""
    found = [*_lanes(scene), *_requests(scene), *_cost(scene, untraced_p50_ms, traced_p50_ms, factor)]
    return [*found, *scene.trace.caveats]


def _lanes(scene: Scene) -> list[Caveat]:
    trace, links = scene.trace, scene.links
    found = []
    lost, launches = int(links.lost.sum()), int(links.launches.sum())
    if lost and lost == launches:
        text = f"{launches} launches have no record of their kernels: the device lane is missing, nothing is said of idle time."
        found.append(Caveat("device_lane_missing", text, lost))
    elif lost:
        text = f"{lost} of {launches} launches have no record of their kernels; requests that hold them say nothing of idle time."
        found.append(Caveat("device_records_lost", text, lost))
    captured = int((links.captured & np.isin(links.kinds, (1, 2))).sum())
    if captured:
        found.append(Caveat("graph_captured", f"{captured} launches were recorded into a graph and did not run.", captured))
    if scene.has_device and not len(trace.runtime):
        found.append(Caveat("host_lane_missing", "No calls of the host were recorded: nothing is said of launches or waits."))
    elif scene.has_device:
        orphans = int((links.launcher < 0).sum())
        if orphans > _NO_HOST_SHARE * len(trace.device):
            text = f"{orphans} pieces of device work have no launch in the trace: they were launched before it began, or the link is lost."
            found.append(Caveat("work_without_launch", text, orphans))
    if len(trace.runtime) and len(trace.ops):
        blind = np.setdiff1d(trace.runtime.lane[links.launches], trace.ops.lane)
        if len(blind):
            text = f"{len(blind)} threads launched work without recorded operators: the profiler did not follow them."
            found.append(Caveat("ops_missing_on_thread", text, len(blind)))
    elif len(trace.runtime) and not len(trace.ops) and trace.tracks is None:
        found.append(Caveat("no_operators", "No operators were recorded, so no code can be named."))
    strange = {cat: n for cat, n in trace.other.items() if cat not in _KNOWN}
    if strange:
        names = ", ".join(sorted(strange))
        found.append(Caveat("unknown_lanes", f"Lanes that are not understood are left out: {names}.", sum(strange.values())))
    return found


_KNOWN = frozenset(
    "cpu_instant_event gpu_user_annotation ac2g fwdbwd async_cpu_to_gpu none user_annotation_gpu cuda_profiler_range midwatch".split(),
)


def _requests(scene: Scene) -> list[Caveat]:
    found = []
    if scene.spans.basis == "window":
        found.append(Caveat("no_requests", "No requests are marked in the trace; the whole window counts as one."))
    elif not scene.spans.whole:
        found.append(Caveat("no_whole_request", "No request lies whole inside the window.", len(scene.spans.requests)))
    overhead = scene.trace.overhead
    inside = 0
    for request in scene.spans.whole:
        both = np.minimum(overhead.end, request.end) - np.maximum(overhead.start, request.start)
        inside += int(np.maximum(both, 0).sum())
    if inside > _OVERHEAD_NS:
        found.append(
            Caveat("profiler_overhead", f"The profiler itself stopped requests for {inside / 1e6:.1f} ms in all.", inside // 1000)
        )
    return found


def _cost(scene: Scene, untraced: float | None, traced: float, factor: float) -> list[Caveat]:
    if untraced is None:
        if len(scene.trace.ops) or len(scene.trace.python):
            text = "No untraced latency is known: milliseconds still hold the profiler's own cost on the host."
            return [Caveat("untraced_unknown", text)]
        return []
    if factor < 1.0:
        text = f"The profiler slowed requests from {untraced:.2f} to {traced:.2f} ms; untraced figures are the traced ones times {factor:.2f}."
        return [Caveat("untraced_factor", text)]
    if traced and untraced > traced * 1.1:
        text = f"Requests outside the window took longer ({untraced:.2f} ms) than those inside ({traced:.2f} ms)."
        return [Caveat("untraced_slower", text)]
    return []
