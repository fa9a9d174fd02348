"""What the trace of one rank says of its part in a distributed job; times are nanoseconds, moments Unix nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective as this rank took part in it, from its arrival on: whoever comes first waits longest."""

    name: str
    group: str
    """Name of the process group, "" where the trace does not tell."""
    start_ns: int
    duration_ns: int

    @property
    def end_ns(self) -> int:
        """When it ended, which is about the same moment on all ranks."""
        return self.start_ns + self.duration_ns


@dataclass(frozen=True, slots=True)
class RankStep:
    """One step of the profiler, or the whole window where none is marked (``number`` -1)."""

    number: int
    start_ns: int
    duration_ns: int
    compute_ns: int = 0
    """Time in which the device did something else than collectives; 0 where no device was recorded."""
    collectives: tuple[Collective, ...] = ()
    """In the order in which they began."""


@dataclass(frozen=True, slots=True)
class RankFacts:
    """One rank. ``lane`` says where its collectives were seen: ``device``, ``host`` or "" for none."""

    rank: int
    world_size: int
    """0 where the trace does not tell."""
    backend: str = ""
    groups: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Process groups by name with their ranks, as far as the trace tells."""
    lane: str = ""
    steps: tuple[RankStep, ...] = ()
