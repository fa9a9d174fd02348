"""A small picture of host and device lanes for the terminal."""

from __future__ import annotations

import math
from dataclasses import replace

from midwatch.model.trace import Lane, Timeline
from midwatch_server.diagnosis.words import ms

BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN = " .:-=+*%#"
MIN_CELLS = 10
MAX_CELLS = 96


def timeline_lines(timeline: Timeline, width: int, *, unicode: bool = True) -> list[tuple[Lane | None, str]]:
    """Return the picture as lines of at most ``width`` columns: one a lane, then the axis and the legend.

    A lane's line comes with its lane, so that it can be coloured; axis and legend come with None.
    Lanes with nothing in them are left out; without any, or in less than `MIN_CELLS` columns, there is no picture.
    """
    lanes = drawable(timeline)
    label = max((len(lane.name) for lane in lanes), default=0)
    cells = min(width - label - 2, MAX_CELLS)
    if not lanes or cells < MIN_CELLS:
        return []
    ramp = BLOCKS if unicode else PLAIN
    drawn: list[tuple[Lane | None, str]] = [
        (lane, f"{lane.name:<{label}}  {_bar(resample(lane.cells, cells), ramp)}".rstrip()) for lane in lanes
    ]
    pad = " " * (label + 2)
    drawn.append((None, pad + axis(timeline.duration_ms, cells)))
    drawn.append((None, f"{pad}height: how busy a lane is"))
    return drawn


def drawable(timeline: Timeline) -> list[Lane]:
    """Return the lanes that hold anything, each cell from 0 to 100, whatever was stored; [] where there is no time."""
    if not 0 < timeline.duration_ms < math.inf or not math.isfinite(timeline.start_ms):
        return []
    lanes = [replace(lane, cells=tuple(min(max(cell, 0), 100) for cell in lane.cells)) for lane in timeline.lanes]
    return [lane for lane in lanes if any(lane.cells)]


def resample(cells: tuple[int, ...], wanted: int) -> list[float]:
    """Return ``wanted`` cells with the same area as ``cells``: each is the mean of what it covers, 0 to 100."""
    have = len(cells)
    out: list[float] = []
    for i in range(wanted):
        start, end = i * have / wanted, (i + 1) * have / wanted
        covered = 0.0
        at = int(start)
        while at < end and at < have:
            covered += cells[at] * (min(end, at + 1) - max(start, at))
            at += 1
        out.append(covered / (end - start))
    return out


def _bar(shares: list[float], ramp: str) -> str:
    """Draw one lane of shares from 0 to 100; what is not quite nothing still shows."""
    top = len(ramp) - 1
    return "".join(ramp[0] if share < 1 else ramp[max(1, round(share * top / 100))] for share in shares)


def axis(duration_ms: float, cells: int) -> str:
    """Return ``0 ... 4.0 ms ... 8.0 ms`` over ``cells`` columns."""
    half, end = ms(duration_ms / 2), ms(duration_ms)
    line = ["0"]
    middle = cells // 2 - len(half) // 2
    if middle > 2 and middle + len(half) + 2 <= cells - len(end):
        line.append(" " * (middle - 1) + half)
    so_far = len("".join(line))
    line.append(" " * max(cells - so_far - len(end), 1) + end)
    return "".join(line)
