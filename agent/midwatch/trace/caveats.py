"""What a reader of the figures must know: lanes that are missing, records that were lost, costs still inside."""

from __future__ import annotations

import numpy as np

from midwatch.model.trace import Caveat
from midwatch.trace import apis
from midwatch.trace.gains import Gains
from midwatch.trace.intervals import Cover, distinct
from midwatch.trace.scene import Scene

_OVERHEAD_NS = 100_000
_ORPHANS = 0.01
_SLOWER = 1.1
_HARDLY = 0.995
_QUIET = frozenset({
    "cpu_instant_event", "gpu_user_annotation", "ac2g", "fwdbwd", "async_cpu_to_gpu", "none", "cuda_profiler_range",
    "midwatch",
})  # fmt: skip
"""Categories that are left out without a word: they repeat what others say, or are our own drawing."""


def find_caveats(scene: Scene, untraced_p50_ms: float | None, gains: Gains) -> list[Caveat]:
    """All caveats that the joined trace shows, those of its lanes first and those of its reading last."""
    return [
        *_device_lane(scene),
        *_host_lane(scene),
        *_requests(scene),
        *_cost(untraced_p50_ms, gains, _of_route(scene)),
        *scene.trace.caveats,
    ]


def _device_lane(scene: Scene) -> list[Caveat]:
    trace, links = scene.trace, scene.links
    found = []
    lost, launches = int(links.missing.sum()), int(links.launches.sum())
    if lost and lost == launches and not scene.has_device:
        text = f"{launches} launches, but no record of a kernel: the device lane is missing and its idle time unknown."
        found.append(Caveat("device_lane_missing", text, lost))
    elif lost:
        text = f"{lost} of {launches} launches have no record of their kernels; where they lie, idle time is unknown."
        found.append(Caveat("device_records_lost", text, lost))
    queued = int((links.lost & links.queued).sum())
    if queued:
        text = f"{queued} launches still stood in line for the device when the recording ended."
        found.append(Caveat("work_queued_at_end", text, queued))
    captured = int((links.captured & np.isin(links.kinds, (apis.LAUNCH, apis.GRAPH))).sum())
    if captured:
        text = f"{captured} launches were recorded into a graph and did not run."
        found.append(Caveat("graph_captured", text, captured))
    orphans = int((links.launcher < 0).sum())
    if len(trace.runtime) and orphans > _ORPHANS * len(trace.device):
        text = f"{orphans} pieces of device work have no launch in the trace: made before it began, or not linked."
        found.append(Caveat("work_without_launch", text, orphans))
    return found


def _host_lane(scene: Scene) -> list[Caveat]:
    trace, links = scene.trace, scene.links
    found = []
    if scene.has_device and not len(trace.runtime):
        text = "No calls of the host were recorded: nothing is said of launches or waits."
        found.append(Caveat("host_lane_missing", text))
    if len(trace.runtime) and len(trace.ops):
        blind = np.setdiff1d(distinct(trace.runtime.lane[links.launches]), distinct(trace.ops.lane))
        if len(blind):
            launched = int(np.isin(trace.runtime.lane[links.launches], blind).sum())
            text = (
                f"{launched} of {int(links.launches.sum())} launches came from threads whose operators were not "
                "recorded: the profiler was started on another thread."
            )
            found.append(Caveat("ops_missing_on_thread", text, launched))
    elif len(trace.runtime) and trace.tracks is None:
        text = "No operators were recorded, so no code can be named"
        if not len(trace.python):
            text += ", and what the host did between two calls is not known"
        found.append(Caveat("no_operators", f"{text}."))
    strange = {cat: count for cat, count in trace.other.items() if cat not in _QUIET}
    if strange:
        text = f"Lanes that are not understood are left out: {', '.join(sorted(strange))}."
        found.append(Caveat("unknown_lanes", text, sum(strange.values())))
    return found


def _requests(scene: Scene) -> list[Caveat]:
    tracks = scene.trace.tracks
    found = list(tracks.capture.caveats) if tracks is not None else []
    if scene.spans.basis == "window" and tracks is not None:
        # Of the agent's own window more is known than that nothing is marked in it.
        found.append(Caveat("idle", "The agent saw no request in this window: figures refer to the window as a whole."))
    elif scene.spans.basis == "window":
        text = "No requests are marked in the trace; the whole window counts as one."
        found.append(Caveat("no_requests", text))
    elif not scene.spans.whole:
        text = "No request lies whole inside the window."
        found.append(Caveat("no_whole_request", text, len(scene.spans.requests)))
    stops = Cover.union(scene.trace.overhead.start, scene.trace.overhead.end)
    inside = sum(stops.inside(request.start, request.end) for request in scene.spans.whole)
    if inside > _OVERHEAD_NS:
        text = f"The profiler itself stopped requests for {inside / 1e6:.1f} ms in all"
        left_out = len(scene.spans.whole) - len(scene.spans.fair)
        if left_out:
            text += (
                f"; the {left_out} that it disturbed most are left out"
                if left_out > 1
                else ("; the one that it disturbed most is left out")
            )
        found.append(Caveat("profiler_overhead", f"{text}.", left_out))
    return found


def _of_route(scene: Scene) -> str:
    """`` of POST /rank`` where several routes are served and figures are of one; else ""."""
    several = len({request.route for request in scene.spans.fair}) > 1
    return f" of {scene.main[0].route}" if several and scene.main else ""


def _cost(untraced: float | None, gains: Gains, of: str) -> list[Caveat]:
    traced, factor = gains.traced_ms, gains.factor
    if untraced is not None and gains.known:
        if factor < _HARDLY:
            text = (
                f"The profiler slowed requests{of} from {untraced:.2f} to {traced:.2f} ms; "
                f"untraced figures are the traced ones times {factor:.2f}."
            )
            return [Caveat("untraced_factor", text)]
        if untraced > traced * _SLOWER:
            text = (
                f"Requests{of} outside the window took longer ({untraced:.2f} ms) than those inside ({traced:.2f} ms)."
            )
            return [Caveat("untraced_slower", text)]
        return []
    if untraced is not None and traced * factor > untraced * _SLOWER:
        text = (
            f"Requests{of} inside the window took longer ({traced:.2f} ms) than those before it ({untraced:.2f} ms), "
            "by more than the profiler explains: something else slowed them too. Figures are those of the window."
        )
        return [Caveat("slow_window", text)]
    if factor >= _HARDLY:
        return []
    text = (
        "No untraced latency can be set beside these requests; judging by the cost of an event, the profiler made them "
        f"take {1 / factor:.2f} times as long."
    )
    return [Caveat("untraced_estimated", text)]
