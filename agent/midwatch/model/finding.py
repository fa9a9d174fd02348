"""What the diagnosis says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from midwatch.model.site import Site
from midwatch.model.trace import Caveat


class Kind(str, Enum):
    """The kinds of finding. Public and stable: a kind is never renamed, and its number on the wire never changes."""

    HOT_SYNC = "hot_sync"
    LAUNCH_BOUND = "launch_bound"
    HOST_GAP = "host_gap"
    KERNEL_BOUND = "kernel_bound"
    RECOMPILE = "recompile"
    GRAPH_BREAK = "graph_break"
    GC_PAUSE = "gc_pause"
    GIL_CONTENTION = "gil_contention"
    LOCK_WAIT = "lock_wait"
    ALLOC_THRASH = "alloc_thrash"
    TRANSFER_BOUND = "transfer_bound"
    CPU_STARVED = "cpu_starved"
    GPU_THROTTLED = "gpu_throttled"
    GPU_CONTENDED = "gpu_contended"
    QUEUEING = "queueing"
    DATA_STALL = "data_stall"
    COLLECTIVE_WAIT = "collective_wait"
    FIRST_CALL = "first_call"
    UNKNOWN = "unknown"
    """A kind that only a newer version knows; read from the wire or the store, never found here."""


class Verdict(str, Enum):
    """What the evidence allows to be said as a whole."""

    FINDINGS = "findings"
    CLEAN = "clean"
    INSUFFICIENT_DATA = "insufficient_data"
    UNKNOWN = "unknown"
    """A verdict that only a newer version knows; never given here."""


@dataclass(frozen=True, slots=True)
class GraphCandidate:
    """Whether the launches of a request could be captured in a CUDA graph, and what that would give."""

    suitable: bool
    reason: str
    predicted_ms: float = 0.0
    hazards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """One change to try, why, and what to measure afterwards."""

    change: str
    reason: str
    measure: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, with what it costs. All figures refer to the requests affected, in untraced milliseconds."""

    kind: Kind
    title: str
    site: Site | None
    per_request_ms: float
    share_of_request: float
    recoverable_ms: float
    occurrences_per_request: float
    requests_affected: int
    confidence: float
    """0 to 1."""
    evidence: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    caveats: tuple[str, ...] = ()
    graph_candidate: GraphCandidate | None = None
    related_site: Site | None = None
    route: str = ""
    """The route whose requests it holds, where a window served several and all of it falls into one; else ""."""
    """The other end where there is one: for ``lock_wait`` the holder's line."""
    share_of_overrun: float = 0.0
    """For a spike: how much of the overrun, as far as it was watched, this explains; 0 for findings from a window."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Findings are ranked, the worst first; a note is a finding that would gain under 5 % of the request."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    reason: str = ""
    """One sentence where the verdict is not ``findings``: why clean, or what is missing."""
