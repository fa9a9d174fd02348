"""What a trace says: facts alone, without judgement. Tens of kilobytes for tens of megabytes of trace.

Times inside a window are milliseconds from the window's start; durations are traced milliseconds (the profiler's own
cost is still in them), and `Window.untraced_factor` is what to multiply with to get untraced ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.site import Site
from midwatch.model.workload import Workload


@dataclass(frozen=True, slots=True)
class Caveat:
    """Something that a reader of the figures must know: a stable code, a sentence, and a number where there is one."""

    code: str
    text: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of time that the trace covers.

    ``basis`` says what the requests are: ``ledger`` (the agent's own tracks), ``annotation``, ``step``, or ``window``
    (nothing marked: the whole window counts as one request).
    ``lanes`` names what was recorded: ``host_ops runtime device sync python ledger samples``.
    """

    start_unix_ns: int = 0
    duration_ms: float = 0.0
    basis: str = "window"
    requests: int = 0
    """Whole ones that the figures are about: those that the profiler itself disturbed are left out."""
    requests_cut: int = 0
    lanes: tuple[str, ...] = ()
    untraced_factor: float = 1.0
    caveats: tuple[Caveat, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """One whole request inside the window."""

    route: str
    start_ms: float
    wall_ms: float
    thread_id: int = 0
    host_busy_ms: float = 0.0
    """Time in which the request's host threads ran (neither waiting for the device nor known to be blocked)."""
    device_busy_ms: float = 0.0
    wait_ms: float = 0.0
    launches: int = 0
    kernels: int = 0
    small_kernels: int = 0
    syncs: int = 0
    copies: int = 0
    copy_bytes: int = 0
    gc_ms: float = 0.0
    op_ms: float = 0.0
    """Time covered by operators, where operators were recorded."""
    workload: str = ""
    slowest: bool = False
    shared: int = 1
    """How many requests shared the units that served this one; figures of work are divided by it."""


@dataclass(frozen=True, slots=True)
class ClassTime:
    """Device time of one class of work: ``compute copy_h2d copy_d2h copy_d2d memset collective``."""

    name: str
    total_ms: float
    count: int


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """All devices of the trace together; busy is the union of intervals, so overlapping streams count once."""

    present: bool = False
    names: tuple[str, ...] = ()
    busy_ms: float = 0.0
    idle_ms: float = 0.0
    idle_host_late_ms: float = 0.0
    idle_launch_latency_ms: float = 0.0
    idle_waiting_ms: float = 0.0
    idle_unknown_ms: float = 0.0
    classes: tuple[ClassTime, ...] = ()
    launches: int = 0
    graph_launches: int = 0
    kernels: int = 0
    small_kernels: int = 0
    """Kernels shorter than 10 microseconds."""
    syncs: int = 0
    copies: int = 0
    copy_bytes: int = 0
    median_kernel_us: float = 0.0
    queue_depth_mean: float = 0.0
    queue_depth_max: int = 0
    launches_without_kernel: int = 0


@dataclass(frozen=True, slots=True)
class WaitFacts:
    """All waits of the host for the device with one cause at one site.

    ``cause`` is one of ``item`` (a scalar read back), ``d2h`` (a blocking copy to the host), ``h2d_pageable``,
    ``stream_sync``, ``event_sync``, ``device_sync``, ``free`` (a wait inside cudaFree), ``other``.
    ``handover`` counts those after which the request launched nothing more: the last hand-over of a result.
    ``recoverable_ms`` is what a request that holds such waits would gain without them, by replay.
    """

    cause: str
    api: str
    count: int
    total_ms: float
    max_ms: float
    requests_affected: int
    per_request_ms: float
    recoverable_ms: float
    handover: int = 0
    followed_by_work: int = 0
    device_busy_ms: float = 0.0
    """How much of the waiting the device spent working."""
    copy_bytes: int = 0
    thread_id: int = 0
    site: Site | None = None
    starts_ms: tuple[float, ...] = ()
    """Where to look: the start of at most eight of them, the longest first."""
    launches_after: float = 0.0
    """Launches that the request still issued after the wait, in an affected request; 0 where not counted."""
    leading: int = 0
    """Those followed by work with no launch before them in the request: none of its own work was waited for."""


@dataclass(frozen=True, slots=True)
class JointWaitFacts:
    """Waits after which the request still launched work, taken away together; a request has at least two of them.

    ``cause`` as in `WaitFacts`, "" where they are the waits of all causes. ``recoverable_ms`` is what a request that
    holds them would gain without any of them, by replay: removed one at a time, the next one takes its place.
    """

    cause: str
    count: int
    total_ms: float
    requests_affected: int
    per_request_ms: float
    recoverable_ms: float
    idle_after_ms: float = 0.0
    """How long the device idles in such a request from the first of them on: more cannot be gained."""
    starts_ms: tuple[float, ...] = ()
    """The start of at most eight of them, the longest first."""


@dataclass(frozen=True, slots=True)
class GapFacts:
    """All stretches, at one site, in which the model's work stood still although a request was under way.

    ``recoverable_ms`` comes from the replay, too, but is untraced already: Python and blocking calls make few events,
    so the profiler hardly slows them.

    ``host`` says what the host did: ``python`` (interpreted code), ``blocked`` (a call that neither computes nor waits
    for the device: I/O, a sleep), ``lock``, ``gc``, ``ops`` (operators on the CPU), ``alloc``, ``compile``,
    ``dispatch`` (launching, one small piece after another), ``data`` (the data loader), ``graph_break``, ``unknown``.
    ``device`` is False where the service uses no device: then no operator ran, and nothing is said of a device.
    """

    host: str
    count: int
    total_ms: float
    max_ms: float
    requests_affected: int
    per_request_ms: float
    recoverable_ms: float
    device: bool = True
    thread_id: int = 0
    site: Site | None = None
    starts_ms: tuple[float, ...] = ()
    callee: str = ""
    leading: bool = False
    """True where all of it comes before the request's first launch: the input was not ready."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One family of kernels: those that share a base name."""

    name: str
    family: str
    """``gemm attention conv softmax norm reduction elementwise index sort copy collective other``."""
    count: int
    total_ms: float
    median_us: float
    share: float
    """Of the device's busy time."""
    tensor_cores: str = "unknown"
    """``yes``, ``no`` or ``unknown``: read from the kernel's name."""
    dtype: str = ""
    op: str = ""
    shapes: tuple[str, ...] = ()
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """How the work was handed to the device, over whole requests."""

    per_request: float = 0.0
    median_launch_us: float = 0.0
    per_launch_host_us: float = 0.0
    """Host time from one launch to the next inside a run of launches: dispatch, Python and the launch call."""
    dispatch_gap_ms: float = 0.0
    """Per request: device idle between kernels of one run, for want of the next launch."""
    recoverable_ms: float = 0.0
    """Per request: replay with the launches of each run issued by one call of 10 us, as a CUDA graph would be; kernels
    and their types stay, and so do waits, copies and what the host does between the runs."""
    replayed_ms: float = 0.0
    """Per request: predicted latency then."""
    stable_sequence: bool = False
    sequences: int = 0
    stable_shapes: bool = False
    hazards: tuple[str, ...] = ()
    """What speaks against capturing what stands between a request's first and last kernel, by name: ``sync``,
    ``tensor_control_flow``, ``tensor_shapes``, ``print_or_log``, ``allocation``, ``empty_cache``, ``warm_up``,
    ``changing_sequence``, ``changing_shapes``, ``side_streams``, ``collectives``, ``graphs_already``,
    ``grads_to_none``; ``one_request`` where nothing could be compared."""
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """Copies of one direction and memory kind (``Device -> Pageable``)."""

    direction: str
    memory: str
    count: int
    bytes: int
    device_ms: float
    host_ms: float
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class AllocFacts:
    """Calls of the device's allocator (``cudaMalloc``, ``cudaFree``, ``cudaHostAlloc``) inside requests."""

    api: str
    count: int
    total_ms: float
    requests_affected: int
    site: Site | None = None
    recoverable_ms: float | None = None
    """What an affected request would gain, in untraced milliseconds, without any call of the allocator, those of the
    other functions included; None where it could not be replayed."""


@dataclass(frozen=True, slots=True)
class GcFacts:
    """Garbage collections of one generation inside requests: automatic ones, or those that one site asked for."""

    generation: int
    count: int
    total_ms: float
    max_ms: float
    requests_affected: int
    per_request_ms: float
    collected: int = 0
    explicit: bool = False
    thread_id: int = 0
    site: Site | None = None
    starts_ms: tuple[float, ...] = ()
    """Where to look: the start of at most eight of them, the longest first."""
    recoverable_ms: float | None = None
    """What an affected request would gain without it, in untraced milliseconds; None where it could not be replayed."""


@dataclass(frozen=True, slots=True)
class LockFacts:
    """Waits for one lock, from the agent's samples."""

    lock: str
    count: int
    total_ms: float
    requests_affected: int
    per_request_ms: float
    waiter: Site | None = None
    holder: Site | None = None
    holder_thread: str = ""
    starts_ms: tuple[float, ...] = ()
    """Where to look: the start of at most eight of them, the longest first."""
    recoverable_ms: float | None = None
    """What an affected request would gain without it, in untraced milliseconds; None where it could not be replayed."""


@dataclass(frozen=True, slots=True)
class OpFacts:
    """One operator on the host."""

    name: str
    count: int
    self_ms: float
    shapes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileFacts:
    """Compilation seen inside requests."""

    what: str
    count: int
    total_ms: float
    requests_affected: int
    site: Site | None = None
    recoverable_ms: float | None = None
    """What an affected request would gain without it, in untraced milliseconds; None where it could not be replayed."""


@dataclass(frozen=True, slots=True)
class LoaderFacts:
    """What requests (steps, mostly) spent in ``DataLoader.__next__``.

    ``requests_affected`` are those that waited for more than 2 % of their time; ``per_request_ms``, ``wall_ms`` (how
    long they take) and ``idle_ms`` (the device had nothing to do meanwhile) are means of theirs. ``recoverable_ms`` is
    what they would gain without the wait, by replay, untraced. ``share`` is of the time of all requests, 0 to 1.
    """

    count: int = 0
    total_ms: float = 0.0
    share: float = 0.0
    requests_affected: int = 0
    per_request_ms: float = 0.0
    wall_ms: float = 0.0
    idle_ms: float = 0.0
    recoverable_ms: float = 0.0
    period: int = 0
    """Every how many requests a long wait comes, where they come at even distances; else 0."""
    site: Site | None = None
    starts_ms: tuple[float, ...] = ()
    """Where to look: the start of at most eight of them, the longest first."""


@dataclass(frozen=True, slots=True)
class GraphBreakFacts:
    """Places at which `torch.compile` left compiled code and came back, inside requests.

    ``total_ms`` is host time from the operator before each to the operator after it. ``recoverable_ms`` is what an
    affected request would gain without that time, by replay, untraced; what fusion across it would gain is not in it.
    """

    count: int = 0
    calls: int = 0
    """Calls of compiled functions in those requests."""
    total_ms: float = 0.0
    requests_affected: int = 0
    per_request_ms: float = 0.0
    recoverable_ms: float = 0.0
    sites: tuple[Site, ...] = ()
    """Lines of the breaks, where the trace holds Python frames."""
    starts_ms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectiveFacts:
    """Device time in collectives inside whole requests; medians of a request, in traced milliseconds."""

    count: int = 0
    """In all requests."""
    requests_affected: int = 0
    per_request_ms: float = 0.0
    exposed_ms: float = 0.0
    """While nothing else ran on the device."""
    host_wait_ms: float = 0.0
    """The host waited for the device meanwhile."""
    names: tuple[str, ...] = ()
    """Of the kernels, the longest in all first."""
    world_size: int = 0
    """Ranks of the job, 0 where the trace does not say."""


@dataclass(frozen=True, slots=True)
class TimeFacts:
    """Where a part of the usual requests' time went, where no device is used.

    ``what`` is one of ``ops`` (operators), ``gc``, ``lock``, ``compile``, ``queued`` (the thread that runs the model
    worked for other requests), ``blocked``, ``python``, ``glue`` (Python between operators, the framework's or the
    service's own: samples cannot tell, since the interpreter lets them look where an operator begins), ``idle`` (the
    thread waited for work, an event or another thread), ``outside`` (it waited for something outside of this process:
    a service, a database, another process), ``held`` (no sample could be taken: the interpreter, or the
    processors, were taken) and ``unknown``.
    """

    what: str
    share: float
    """Of the requests' time, 0 to 1."""
    per_request_ms: float
    samples: int = 0
    """Stack samples that found it so, and from whose share of all it is estimated; 0 for what was recorded exactly."""
    thread: str = ""
    """Name of the thread that runs the model, where it is that one, and not the request's own."""
    site: Site | None = None
    requests: int = 0
    """How many of the requests had some of it."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of the down-sampled timeline: the busy share of each cell, 0 to 100."""

    name: str
    kind: str
    """``request``, ``host`` (operators and calls of the runtime), ``wait``, ``device``, ``copy``.

    And what else the host did while the model's work stood still: ``python``, ``blocked`` (in a call, for a lock or a
    data loader) or ``gc``."""
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The slowest whole request (or the whole window), for drawing."""

    start_ms: float = 0.0
    duration_ms: float = 0.0
    lanes: tuple[Lane, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """The facts of one trace; what the diagnosis sees, and what travels to the collector."""

    file: str = ""
    torch: str = ""
    cuda: str = ""
    events: int = 0
    window: Window = Window()
    device: DeviceFacts = DeviceFacts()
    requests: tuple[RequestFacts, ...] = ()
    """At most 64, the slowest always among them."""
    request_p50_ms: float = 0.0
    """Traced wall time of the whole requests: the median of the route that most time goes to."""
    waits: tuple[WaitFacts, ...] = ()
    gaps: tuple[GapFacts, ...] = ()
    kernels: tuple[KernelFacts, ...] = ()
    launch: LaunchFacts = LaunchFacts()
    copies: tuple[CopyFacts, ...] = ()
    allocs: tuple[AllocFacts, ...] = ()
    gc: tuple[GcFacts, ...] = ()
    locks: tuple[LockFacts, ...] = ()
    compiles: tuple[CompileFacts, ...] = ()
    ops: tuple[OpFacts, ...] = ()
    timeline: Timeline = Timeline()
    time: tuple[TimeFacts, ...] = ()
    """Where the time of the usual requests went, the twelve largest parts first; empty where a device is used."""
    workload: Workload = Workload()
    """What most of the usual requests worked on, as far as the agent's tracks in the trace say."""
    loader: LoaderFacts | None = None
    """Waits for a data loader; None where there was none."""
    breaks: GraphBreakFacts | None = None
    """Graph breaks; None where there were none."""
    collective: CollectiveFacts | None = None
    """Collectives on the device; None where there were none."""
    joint_waits: tuple[JointWaitFacts, ...] = ()
    """Of all waits inside requests together, and of those of each cause; empty where no request has two."""
