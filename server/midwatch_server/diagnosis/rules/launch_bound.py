"""``launch_bound``: the device waits between many small kernels; launching costs more than the work.

Definition: in a request with at least `MIN_LAUNCHES` launches, many kernels are small (under 10 us, `MIN_SMALL_SHARE`
of them: a model may have a launch-bound part beside one that is not), and the device idles between the kernels of one
run, for want of the next launch, for at least `MIN_IDLE_SHARE` of the request, yet by no more than
`MAX_IDLE_PER_LAUNCH_MS` a launch: longer gaps are something else than dispatch. What it would gain is the replay with
the launches of each run issued at once, as a CUDA graph does; waits and host gaps stay in that replay. The device also
idles between small kernels where a wait has just emptied its queue: what the removal of such waits would gain is
theirs, and taken off here, since without the wait the same launches would hide behind the work before it.
Nothing is said where launches alone were recorded of the threads that launch: what takes the time between them,
dispatch or something else, is not known then.

What is predicted assumes that launching costs nothing but one call of about 10 us a run (see the agent's `Gains`), and
leaves kernels, their types and the time between them on the device as they are. It is what capture gives; fusion, which
also makes the kernels fewer, may give more. The candidate says whether capture is possible as the service stands: what
the agent's trace shows against it is in `HAZARDS`, by name.

Sources: a launch costs the host 4 to 10 us and an eager PyTorch operator 10 to 30 us, so kernels under 10 us cannot
hide it (PyTorch's blog on CUDA graphs; HolisticTraceAnalysis calls kernels under 10 us short). A profiler with stacks
makes that up to 100 us. 20 launches are where the cost reaches a tenth of a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, GraphCandidate, Kind
from midwatch.model.trace import TraceSummary

from midwatch_server.diagnosis.build import window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.rules.jointly import claimed_by_waits, inside
from midwatch_server.diagnosis.words import count, ms, percent, place, plural

MIN_LAUNCHES = 20
MIN_SMALL_SHARE = 0.25
MOSTLY = 0.5
MIN_IDLE_SHARE = 0.2
MAX_IDLE_PER_LAUNCH_MS = 0.2

HAZARDS = {
    "sync": "the host waits for the device between the launches",
    "tensor_control_flow": "control flow depends on the value of a tensor",
    "tensor_shapes": "the size of a result depends on the values of a tensor (nonzero, masked_select, unique)",
    "print_or_log": "something is printed or logged between the launches, which a replay would not do again",
    "allocation": "memory is taken from the driver between the launches (cudaMalloc)",
    "empty_cache": "memory is given back to the driver between the launches (cudaFree, as empty_cache() does)",
    "warm_up": "the first requests of the window still load code or take memory: warm up before capture",
    "changing_sequence": "the launches are not the same each time",
    "changing_shapes": "shapes change",
    "side_streams": "work runs on several streams",
    "collectives": "there are collectives (NCCL) among the kernels",
    "graphs_already": "CUDA graphs are in use already",
    "grads_to_none": "gradients are set to None by zero_grad(): a replay would go on writing to the old ones",
}
"""What speaks against capturing a request, by the name that the facts give it."""

MEASURE = "The median latency and the launches per request"

GRAPH = Advice(
    "Capture the forward in a CUDA graph: torch.compile(model, mode='reduce-overhead'), or torch.cuda.CUDAGraph",
    "Launch sequence and shapes are the same in every request seen; one graph launch replaces them all",
    MEASURE,
)
FUSE = Advice(
    "torch.compile the module with most launches",
    "It fuses chains of small operators into fewer kernels; watch the first requests for compilation",
    MEASURE,
)
BATCH = Advice(
    "Put more requests into one forward",
    "The launches stay the same and each kernel does more work",
    MEASURE + ", beside the throughput",
)


class LaunchBound:
    """Launching that takes longer than the work."""

    kind = Kind.LAUNCH_BOUND

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield at most one finding: launching is a property of the whole request."""
        summary = evidence.summary
        if summary is None or not summary.device.kernels:
            return
        if evidence.host_lane_missing or evidence.device_lane_missing or evidence.launches_unseen:
            return
        launch = summary.launch
        wall = evidence.wall_ms()
        idle = evidence.untraced(launch.dispatch_gap_ms)
        small = summary.device.small_kernels / summary.device.kernels
        if launch.per_request < MIN_LAUNCHES or small < MIN_SMALL_SHARE or idle < MIN_IDLE_SHARE * wall:
            return
        if idle > MAX_IDLE_PER_LAUNCH_MS * launch.per_request:
            return
        gain = min(evidence.untraced(launch.recoverable_ms), wall * (1 - evidence.busy_share()))
        claimed = min(claimed_by_waits(evidence), gain)
        candidate = graph_candidate(evidence, summary)
        whole = evidence.usual_count
        yield window_finding(
            Kind.LAUNCH_BOUND,
            f"{count(launch.per_request)} launches{_of(small)} {evidence.per(whole)}"
            + (f", most of them from {place(launch.site)}," if launch.site else "")
            + f" leave the device idle for {ms(idle)} of {ms(wall)}"
            + (
                f"; issued at once they gain {ms(gain - claimed)} beside the {ms(claimed)} of the waits"
                if claimed
                else ""
            ),
            site=launch.site,
            cost_ms=idle,
            gain_ms=gain - claimed,
            wall_ms=wall,
            occurrences=launch.per_request,
            affected=whole,
            confidence=0.85,
            evidence=_evidence(evidence, summary, small=small, wall=wall, gain=gain, claimed=claimed),
            advice=(GRAPH, FUSE) if candidate.suitable else (FUSE, BATCH),
            graph_candidate=candidate,
        )


def _of(small: float) -> str:
    return " of mostly tiny kernels" if small >= MOSTLY else f", {percent(small)} of them of tiny kernels,"


def _evidence(
    evidence: Evidence, summary: TraceSummary, *, small: float, wall: float, gain: float, claimed: float
) -> Iterable[str]:
    launch = summary.launch
    device = summary.device
    yield (
        f"{percent(small)} of {plural(device.kernels, 'kernel')} take under 10 us, "
        f"the median takes {device.median_kernel_us:.1f} us"
    )
    if launch.per_launch_host_us:
        yield f"The host needs {launch.per_launch_host_us:.1f} us (traced) from one launch to the next"
    yield f"The device works for {percent(evidence.busy_share())} of the median {evidence.noun}"
    yield (
        f"Replayed with each run of launches issued at once, the {evidence.noun} takes {ms(max(wall - gain, 0.0))} "
        f"instead of {ms(wall)}"
    )
    if claimed:
        yield f"{ms(claimed)} of that gain stand behind waits for the device, and are counted there"


def graph_candidate(evidence: Evidence, summary: TraceSummary) -> GraphCandidate:
    """Say whether the launches could be captured in a CUDA graph: stable sequence and shapes, and no hazard seen."""
    launch = summary.launch
    wall = evidence.wall_ms()
    gain = evidence.untraced(launch.recoverable_ms)
    predicted = evidence.untraced(launch.replayed_ms) or max(wall - gain, 0.0)
    reasons = [_hazard(evidence, summary, name) for name in launch.hazards]
    told = {"one_request", "changing_sequence"}.intersection(launch.hazards)
    if not told and not launch.stable_sequence:
        reasons.append(_hazard(evidence, summary, "changing_sequence"))
    elif not told and "changing_shapes" not in launch.hazards and not launch.stable_shapes:
        reasons.append("shapes change, or were not recorded")
    if reasons:
        return GraphCandidate(False, "; ".join(reasons), predicted, launch.hazards)
    return GraphCandidate(True, f"the same launches and shapes in every {evidence.noun}, no hazard seen", predicted)


def _hazard(evidence: Evidence, summary: TraceSummary, name: str) -> str:
    if name == "one_request":
        return f"one {evidence.noun} does not show whether launches and shapes stay the same"
    if name == "sync":
        sites = [wait.site for wait in summary.waits if inside(wait) > 0 and wait.site is not None]
        at = " in " + " and ".join(dict.fromkeys(place(site) for site in sites[:3])) if sites else ""
        return HAZARDS[name] + at
    return HAZARDS.get(name, name)
