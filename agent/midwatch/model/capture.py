"""A capture: one profiler window, from the order to the stored summary."""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.order import CaptureOrder
from midwatch.model.requests import Workload
from midwatch.model.spike import Baseline
from midwatch.model.trace import Caveat, TraceSummary

__all__ = ["Capture", "CaptureOrder"]


@dataclass(frozen=True, slots=True)
class Capture:
    """What came of it. ``state`` is ``done``, ``refused``, ``failed`` or ``empty`` (no records came back)."""

    capture_id: str
    reason: str
    state: str
    engine: str = ""
    deep: bool = False
    detail: str = ""
    """Why it was refused or failed, one sentence."""
    command_id: str = ""
    spike_id: str = ""
    route: str = ""
    ordered_unix_ns: int = 0
    start_unix_ns: int = 0
    end_unix_ns: int = 0
    ready_ms: float = 0.0
    """From the order to the open window."""
    stop_ms: float = 0.0
    """How long stop and save took (without the GIL in the direct engine)."""
    trace_bytes: int = 0
    workload: Workload = Workload()
    baseline: Baseline = Baseline()
    """Of the route most seen in the window, from before it: untraced."""
    caveats: tuple[Caveat, ...] = ()
    summary: TraceSummary | None = None
