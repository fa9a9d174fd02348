"""The host-side services of the fault bench, what is wrong with each, and what was said about it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path

from faults.expected import CLEAN, SERVICES, Expected
from midwatch.model.finding import Finding

HOST = SERVICES / "host"
LONG_NS = 20_000_000
"""Spikes from here on should show their line in that very request."""


@dataclass(frozen=True, slots=True)
class HostFault(Expected):
    """A service under ``host/``. With ``every`` 1 its fault is in each request, so that it never spikes."""

    every: int = 0
    lineless: bool = False
    """Where it happens is chance, so that a line would be wrong."""

    @property
    def path(self) -> Path:
        """The service's file."""
        return HOST / f"{self.name}.py"

    @property
    def label(self) -> str:
        """Its name in the table."""
        return f"{self.name} (each)" if self.every == 1 else self.name


SPIKY = (
    HostFault("gc_by_hand", "gc_pause"),
    HostFault("gc_by_itself", "gc_pause", lineless=True),
    HostFault("lock_held", "lock_wait"),
    HostFault("slow_pipe", "host_gap"),
    HostFault("retry_sleep", "host_gap"),
    HostFault("regex_backtracks", "host_gap"),
    HostFault("json_dump", "host_gap"),
    HostFault("python_rules", "host_gap"),
    HostFault("gil_hog", "gil_contention"),
    HostFault("slow_backend", "host_gap"),
    HostFault("loop_blocked", "host_gap"),
    HostFault("batcher_rules", "host_gap"),
    HostFault("recompiles", "recompile"),
    HostFault("subprocess_call", "host_gap"),
    HostFault("deep_copy", "host_gap"),
    HostFault("compresses", "host_gap"),
)
ALWAYS = (
    HostFault("gc_by_hand", "gc_pause", every=1),
    HostFault("lock_held", "lock_wait", every=1),
    HostFault("retry_sleep", "host_gap", every=1),
    HostFault("json_dump", "host_gap", every=1),
    HostFault("python_rules", "host_gap", every=1),
    HostFault("slow_backend", "host_gap", every=1),
    HostFault("batcher_rules", "host_gap", every=1),
    HostFault("data_waits", "data_stall", every=1),
)
HEALTHY = tuple(
    HostFault(name, CLEAN)
    for name in (
        "steady", "bimodal", "cold_start", "drifts", "bursts", "batch_sizes", "low_traffic", "heavy_tail",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Planted:
    """One request that had the fault."""

    start_unix_ns: int
    duration_ns: int


def planted(record: Path) -> list[Planted]:
    """The requests of a service's record that had the fault."""
    seen = array("q")
    seen.frombytes(record.read_bytes())
    return [Planted(start, took) for start, took, had in zip(seen[::3], seen[1::3], seen[2::3], strict=True) if had]


def same_request(one: Planted, start_unix_ns: int, duration_ns: int) -> bool:
    """Whether a request that the agent told of shares time with this one, or was kept waiting by it."""
    end_ns = start_unix_ns + duration_ns
    return one.start_unix_ns <= end_ns and start_unix_ns <= one.start_unix_ns + one.duration_ns


def where(finding: Finding) -> str:
    """File and line of a finding, with a question mark where the line was not witnessed."""
    site = finding.site
    if site is None:
        return "-"
    return f"{Path(site.file).name}:{site.line}{'' if site.exact else '?'}"


def right(finding: Finding, expected: HostFault) -> bool:
    """Whether kind and line are the planted ones, and the line was witnessed."""
    site = finding.site
    if expected.lineless:
        return finding.kind.value == expected.kind and site is None
    return finding.kind.value == expected.kind and expected.is_at(site) and site is not None and site.exact
