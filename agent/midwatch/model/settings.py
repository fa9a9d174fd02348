"""What the companion must know of the service's settings; travels in the ``hello`` frame."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompanionSettings:
    """The part of the agent's settings that its companion needs.

    ``raw_traces`` is ``auto`` (the raw file goes to a collector on loopback only), ``never`` or ``always``.
    """

    collector: str = "127.0.0.1:7171"
    """``host:port``; "" sends nothing and keeps nothing."""
    token: str = ""
    state_dir: str = ""
    """Where the spool lives; "" keeps what waits in memory alone."""
    spool_bytes: int = 256 * 1024 * 1024
    raw_traces: str = "auto"
    trace_memory_bytes: int = 1 << 30
    trace_dir: str = ""
    """Private to this service process; the link makes and names it."""
