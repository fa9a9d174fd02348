"""The table: figures of a whole request, side by side."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from midwatch.model.trace import RequestFacts

from midwatch_server.diagnosis.diff.side import Side
from midwatch_server.diagnosis.diff.spread import sample, status
from midwatch_server.diagnosis.diff.values import Figure, Sample
from midwatch_server.diagnosis.verdict import DEVICE_BOUND

MIN_SHARE = 0.01
"""Of the shorter request: a smaller difference in time matters to nobody. Counts must differ by as much, too.

Of the shorter one, since beside a request a hundred times as long nothing in a short one would ever be said to change.
"""
MIN_MS = 0.002
"""Two microseconds: less than the clocks of traces are good for."""


_Pair = tuple[Sequence[float], Sequence[float]]


class Told(NamedTuple):
    """A figure that each request tells, and the lane that must have been recorded for it; "" for none."""

    key: str
    label: str
    unit: str
    lane: str
    of: Callable[[RequestFacts], float]


TOLD = (
    Told("wait_ms", "waiting for the device", "ms", "runtime", lambda facts: facts.wait_ms),
    Told("device_busy_ms", "device busy", "ms", "device", lambda facts: facts.device_busy_ms),
    Told("operators_ms", "inside operators, traced", "ms", "host_ops", lambda facts: facts.op_ms),
    Told("gc_ms", "garbage collection", "ms", "", lambda facts: facts.gc_ms),
    Told("launches", "launches", "count", "runtime", lambda facts: facts.launches),
    Told("kernels", "kernels", "count", "device", lambda facts: facts.kernels),
    Told("small_kernels", "kernels under 10 us", "count", "device", lambda facts: facts.small_kernels),
    Told("syncs", "waits", "count", "runtime", lambda facts: facts.syncs),
    Told("copies", "copies", "count", "device", lambda facts: facts.copies),
    Told("copy_bytes", "copied", "bytes", "device", lambda facts: facts.copy_bytes),
)


def floor_ms(a: Side, b: Side) -> float:
    """Return the milliseconds below which a difference between ``a`` and ``b`` matters to nobody."""
    return max(MIN_SHARE * min(statistics.median(a.walls), statistics.median(b.walls)), MIN_MS)


def wall(a: Side, b: Side) -> Figure:
    """Return the median request, untraced."""
    return _corrected(a, b, "wall_ms", "request, untraced", untraced=(a.walls, b.walls), traced=(a.traced, b.traced))


def corrected_away(a: Side, b: Side) -> bool:
    """Return whether only the estimated cost of the profiler makes, or hides, a difference of the requests."""
    floor = floor_ms(a, b)
    return not _cost_known(a, b) and status(a.walls, b.walls, floor) != status(a.traced, b.traced, floor)


def _cost_known(a: Side, b: Side) -> bool:
    return a.cost_known and b.cost_known


def _corrected(a: Side, b: Side, key: str, label: str, *, untraced: _Pair, traced: _Pair) -> Figure:
    """A figure of which the profiler's cost is taken off: a difference counts if it is there without that, too.

    What an estimate of the cost makes out of two windows alike is no difference.
    """
    row = _measured(key, label, *untraced, floor_ms(a, b))
    sure = _cost_known(a, b) or row.status == status(*traced, floor_ms(a, b))
    return row if sure else replace(row, status="same")


def slowest(a: Side, b: Side) -> Figure:
    """Return the slowest request, untraced; a single one has no spread, so it is never more than a remark."""
    return _alone("slowest_ms", "slowest request, untraced", "ms", max(a.walls), max(b.walls))


def figures(a: Side, b: Side) -> tuple[Figure, ...]:
    """Return all other figures, in the order in which they are shown; what neither side has is left out."""
    rows = [_host(a, b), *_idle(a, b), *(_told(a, b, told) for told in TOLD), *_window(a, b)]
    return tuple(row for row in rows if row is not None and not _empty(row))


def _host(a: Side, b: Side) -> Figure | None:
    known = not (a.evidence.host_lane_missing or b.evidence.host_lane_missing)
    if not (known and a.requests and b.requests):
        return None
    traced = a.of(lambda facts: facts.host_busy_ms), b.of(lambda facts: facts.host_busy_ms)
    if any(_on_device(side) and side.evidence.busy_share() >= DEVICE_BOUND for side in (a, b)):
        # The host's part of the profiler's cost hides behind the device there: the request's factor says nothing of it.
        return _measured("host_busy_ms", "host busy, traced", *traced, floor_ms(a, b))
    untraced = tuple(map(a.evidence.untraced, traced[0])), tuple(map(b.evidence.untraced, traced[1]))
    return _corrected(a, b, "host_busy_ms", "host busy, untraced", untraced=untraced, traced=traced)


def _idle(a: Side, b: Side) -> Iterator[Figure]:
    if _on_device(a) and _on_device(b):
        untraced, traced = (_left(a, a.walls), _left(b, b.walls)), (_left(a, a.traced), _left(b, b.traced))
        yield _corrected(a, b, "device_idle_ms", "device idle, untraced", untraced=untraced, traced=traced)


def _left(side: Side, walls: Sequence[float]) -> list[float]:
    return [max(wall - facts.device_busy_ms, 0.0) for wall, facts in zip(walls, side.requests, strict=True)]


def _on_device(side: Side) -> bool:
    return side.summary.device.present and side.device_known and bool(side.requests)


def _told(a: Side, b: Side, told: Told) -> Figure:
    before, after = (side.of(told.of) if _recorded(side, told.lane) else [] for side in (a, b))
    if not (before and after):
        known = [sample(some) if some else None for some in (before, after)]
        return Figure(told.key, told.label, told.unit, known[0], known[1], "unknown")
    largest = max(statistics.median(before), statistics.median(after))
    floor = floor_ms(a, b) if told.unit == "ms" else MIN_SHARE * largest
    return _measured(told.key, told.label, before, after, floor, unit=told.unit)


def _recorded(side: Side, lane: str) -> bool:
    return not lane or (lane in side.summary.window.lanes and (lane != "device" or side.device_known))


def _window(a: Side, b: Side) -> Iterator[Figure]:
    """Figures that only the window as a whole tells; per request where they are times."""
    if _on_device(a) and _on_device(b):
        for key, label in (
            ("idle_host_late_ms", "idle, host late, traced"),
            ("idle_launch_latency_ms", "idle, launch latency, traced"),
            ("idle_unknown_ms", "idle, unknown why, traced"),
        ):
            values = [getattr(side.summary.device, key) / side.whole_requests for side in (a, b)]
            yield _alone(key, label, "ms", *values)
        yield _alone("median_kernel_us", "median kernel", "us", *(s.summary.device.median_kernel_us for s in (a, b)))
        yield _alone("queue_depth", "launches under way", "count", *(s.summary.device.queue_depth_mean for s in (a, b)))
    graphs = [side.summary.device.graph_launches / side.whole_requests for side in (a, b)]
    yield _alone("graph_launches", "launches of CUDA graphs", "count", *graphs)
    yield _alone("launch_host_us", "host time per launch", "us", *(s.summary.launch.per_launch_host_us for s in (a, b)))
    for key, label, unit in (("count", "allocator calls", "count"), ("total_ms", "inside the allocator", "ms")):
        values = [
            sum(getattr(alloc, key) for alloc in side.summary.allocs) / max(side.summary.window.requests, 1)
            for side in (a, b)
        ]
        yield _alone(f"alloc_{unit}", label, unit, *values)


def _measured(
    key: str, label: str, a: Sequence[float], b: Sequence[float], floor: float, *, unit: str = "ms"
) -> Figure:
    return Figure(key, label, unit, sample(a), sample(b), status(a, b, floor))


def _alone(key: str, label: str, unit: str, a: float, b: float) -> Figure:
    """A figure without a spread: it is shown, and no difference is claimed."""
    return Figure(key, label, unit, Sample(a, a, a), Sample(b, b, b), "unknown")


def _empty(row: Figure) -> bool:
    return not any(one is not None and one.median for one in (row.a, row.b))
