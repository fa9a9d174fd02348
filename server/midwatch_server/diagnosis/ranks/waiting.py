"""Who waited for whom: in each matched collective the others wait for the rank that arrived last."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from midwatch_server.diagnosis.ranks.matching import Match, Matched
from midwatch_server.diagnosis.spans import Span, merge

Waits = dict[int, dict[int, dict[int, int]]]
"""Nanoseconds by step, by the rank that was waited for, by the rank that waited."""


def waits(matched: Matched) -> Waits:
    """Return who waited for whom; on one rank, what overlaps in time counts once."""
    spans: dict[tuple[int, int, int], list[Span]] = defaultdict(list)
    for one in matched.matches:
        last = one.last
        if last is None:
            continue
        shortest = one.parts[last].duration_ns
        for rank, part in one.parts.items():
            if rank != last:
                spans[one.step, last, rank].append((part.start_ns, part.start_ns + part.duration_ns - shortest))
    found: Waits = defaultdict(lambda: defaultdict(dict))
    for (step, last, rank), mine in spans.items():
        found[step][last][rank] = sum(end - start for start, end in merge(mine))
    return found


def late_ms(found: Waits, steps: Sequence[int], rank: int) -> float:
    """Return how long the others waited for ``rank``: the median of them, and of the steps."""
    return statistics.median(_typical(found[step][rank].values()) if step in found else 0.0 for step in steps) / 1e6


def waited_ms(found: Waits, steps: Sequence[int], rank: int) -> float:
    """Return how long ``rank`` waited for others in the median step."""
    return (
        statistics.median(
            sum(by.get(rank, 0) for by in found[step].values()) if step in found else 0.0 for step in steps
        )
        / 1e6
    )


def total_late(found: Waits, rank: int) -> float:
    """Return all that was waited for ``rank``, in nanoseconds of the typical one that waited."""
    return sum(_typical(by_last[rank].values()) for by_last in found.values() if rank in by_last)


def _typical(values: Iterable[int]) -> float:
    listed = list(values)
    return statistics.median(listed) if listed else 0.0


def clocks_ms(matches: Sequence[Match], first: int) -> tuple[dict[int, float], float]:
    """Return by how much each rank's clock is ahead of that of ``first``, and how far the single ends scatter.

    A collective ends at about the same moment everywhere, so its ends tell the clocks apart. Both in milliseconds.
    """
    apart: dict[int, list[float]] = defaultdict(list)
    for one in matches:
        if first in one.parts:
            for rank, part in one.parts.items():
                apart[rank].append((part.end_ns - one.parts[first].end_ns) / 1e6)
    middles = {rank: statistics.median(values) for rank, values in apart.items()}
    scatter = [
        statistics.median(abs(value - middles[rank]) for value in values)
        for rank, values in apart.items()
        if rank != first
    ]
    return middles, max(scatter, default=0.0)
