"""What an agent says about itself."""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.resource import Resource


@dataclass(frozen=True, slots=True)
class Part:
    """One sensor, engine or integration. Unavailable is not failed: ``detail`` says in one line what is off and why."""

    name: str
    state: str
    """``on``, ``off`` (switched off or not needed), ``unavailable`` or ``failed``."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """One agent at one time. ``drops`` are counts by reason since the start of the process."""

    unix_ns: int
    state: str = "on"
    """``on``, ``warming_up``, ``off`` or ``degraded``."""
    detail: str = ""
    engine: str = ""
    requests: int = 0
    spikes: int = 0
    windows: int = 0
    windows_refused: int = 0
    windows_empty: int = 0
    in_flight: int = 0
    parts: tuple[Part, ...] = ()
    drops: tuple[tuple[str, int], ...] = ()
    guarded_errors: tuple[tuple[str, int], ...] = ()
    windows_failed: int = 0
    """Windows that came to nothing: they could not be opened, or their trace not be written or read."""


@dataclass(frozen=True, slots=True)
class AgentView:
    """What the collector knows of one agent; ``connected`` means that it holds a command stream now."""

    resource: Resource
    status: AgentStatus | None = None
    connected: bool = False
    last_seen_unix_ns: int = 0
