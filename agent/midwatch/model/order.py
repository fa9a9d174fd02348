"""The order for a window; apart from `Capture`, since a service imports it at its start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CaptureOrder:
    """What is asked for. A window ends at ``requests`` whole requests or ``seconds``, whichever is first; 0: unset."""

    capture_id: str
    reason: str
    """``demand``, ``spike`` or ``routine``."""
    seconds: float = 0.0
    requests: int = 0
    deep: bool = False
    command_id: str = ""
    """The collector's command that this answers, "" for the agent's own."""
    spike_id: str = ""
    route: str = ""
