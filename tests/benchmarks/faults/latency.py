"""Request latencies inside windows, beside equally long stretches of the same process without one."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

Span = tuple[int, int]
"""Begin and end, Unix nanoseconds."""


@dataclass(frozen=True, slots=True)
class Row:
    """Latencies of the requests that overlap some stretches of time, in milliseconds."""

    name: str
    stretches: int
    requests: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    median_worst_ms: float
    """Median over the stretches of each one's worst request."""

    def plain(self) -> dict[str, object]:
        """The row as JSON can hold it."""
        return asdict(self)


def read(path: Path) -> list[Span]:
    """Requests as (start, end), from a file that a service wrote."""
    pairs = array("q")
    pairs.frombytes(path.read_bytes())
    return [(pairs[at], pairs[at] + pairs[at + 1]) for at in range(0, len(pairs), 2)]


def quiet_stretches(windows: Sequence[Span], margin_ns: int) -> tuple[list[Span], list[Span]]:
    """Two stretches in each pause between windows, as long as the window before: the baseline and its A/A twin.

    ``margin_ns`` after a window is left out. A pause too short for both gives none.
    """
    first, second = [], []
    for (begin, end), (following, _) in itertools.pairwise(windows):
        length = end - begin
        room = following - end - margin_ns
        if room < 2 * length:
            continue
        at = end + margin_ns
        first.append((at, at + length))
        second.append((following - length, following))
    return first, second


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of them lies; ``ordered`` is not empty."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def row(name: str, requests: Sequence[Span], stretches: Sequence[Span]) -> Row:
    """The latencies of ``requests`` that overlap ``stretches``."""
    taken: list[float] = []
    worsts: list[float] = []
    for begin, end in stretches:
        inside = [(stop - start) / 1e6 for start, stop in requests if start < end and stop > begin]
        taken += inside
        worsts += [max(inside)] if inside else []
    taken.sort()
    worsts.sort()
    if not taken:
        return Row(name, len(stretches), 0, 0.0, 0.0, 0.0, 0.0)
    return Row(
        name,
        len(stretches),
        len(taken),
        quantile(taken, 0.5),
        quantile(taken, 0.99),
        taken[-1],
        worsts[len(worsts) // 2],
    )
