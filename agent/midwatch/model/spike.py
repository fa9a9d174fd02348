"""A spike: a request far beyond its deadline, with the evidence caught while it ran."""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.requests import RequestRecord, UnitRecord
from midwatch.model.samples import (
    CompileEvent,
    GcPause,
    GpuSample,
    HostSample,
    LockWait,
    StackSample,
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the route normally does, outside warm-up, spikes and windows. Milliseconds; 0 requests: not known."""

    requests: int = 0
    p50_ms: float = 0.0
    p90_ms: float = 0.0
    p99_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Spike:
    """One spike and what was seen of it."""

    spike_id: str
    request: RequestRecord
    deadline_ms: float
    rule: str
    """Why it counts: ``sketch`` (the route's own deadline), ``slo``, ``low_traffic`` or ``new_shape``."""
    baseline: Baseline
    samples: tuple[StackSample, ...] = ()
    gc: tuple[GcPause, ...] = ()
    locks: tuple[LockWait, ...] = ()
    compiles: tuple[CompileEvent, ...] = ()
    units: tuple[UnitRecord, ...] = ()
    gpu: tuple[GpuSample, ...] = ()
    host: tuple[HostSample, ...] = ()
    capture_id: str = ""
    """The window that was open, or that this spike opened."""
    has_device: bool = False
