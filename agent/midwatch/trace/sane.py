"""Leaves out of the agent's tracks what no clock and no stopwatch shows: a file may hold anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from midwatch.model.tracks import Tracks

Row = TypeVar("Row")

LONGEST_NS = 10 * 366 * 86_400 * 1_000_000_000
"""Ten years: no request is under way for so long."""
LAST_NS = 4_102_444_800 * 1_000_000_000
"""The year 2100."""


def sane(tracks: Tracks) -> tuple[Tracks, int]:
    """Return the tracks without records of impossible times, and how many were left out."""
    kept: dict[str, Any] = {}
    left_out = 0
    for name in ("requests", "units", "samples", "gc", "locks", "compiles"):
        rows = getattr(tracks, name)
        good = tuple([row for row in rows if _possible(row)])
        if len(good) < len(rows):
            kept[name] = good
            left_out += len(rows) - len(good)
    return (replace(tracks, **kept) if kept else tracks), left_out


def _possible(row: Any) -> bool:
    began: int = row.unix_ns if hasattr(row, "unix_ns") else row.start_unix_ns
    took: int = row.weight_ns if hasattr(row, "weight_ns") else row.duration_ns
    return 0 <= began < LAST_NS and 0 <= took <= LONGEST_NS
