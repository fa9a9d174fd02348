"""What is said of the ranks of one job; milliseconds are traced ones of one step."""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.ranks import RankFacts

from midwatch_server.diagnosis.diff.values import Remark


@dataclass(frozen=True, slots=True)
class Member:
    """One rank with the name of its trace."""

    label: str
    facts: RankFacts


@dataclass(frozen=True, slots=True)
class RankRow:
    """One line of the table; medians over the steps. What is not known is None."""

    rank: int
    label: str
    steps: int
    step_ms: float
    compute_ms: float | None
    """The device at work besides collectives."""
    collective_ms: float
    """Inside collectives, waiting for others included."""
    waited_ms: float | None
    """Waiting in collectives for a rank that arrived later."""
    last: int
    """In how many collectives it arrived last, and the others had to wait."""
    late_ms: float | None
    """How long the others waited for it: its excess."""
    clock_ms: float | None
    """By how much its clock is ahead of that of the first rank, as the ends of collectives tell."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that the others wait for."""

    rank: int
    excess_ms: float
    share_of_step: float
    last: int
    waited_for: int
    """Collectives in which somebody waited."""
    exact: bool
    """Collectives were matched one by one; otherwise only their sums were compared."""
    why: str
    """What it does longer than the others, one clause; "" where nothing tells."""


@dataclass(frozen=True, slots=True)
class World:
    """All ranks that are there, and who keeps them waiting."""

    world_size: int
    backend: str
    rows: tuple[RankRow, ...]
    missing: tuple[int, ...]
    steps: tuple[int, ...]
    """Numbers of the steps that all ranks have; empty where none are marked."""
    matched: int
    """Collectives matched one by one across ranks."""
    straggler: Straggler | None
    answer: str
    remarks: tuple[Remark, ...] = ()
