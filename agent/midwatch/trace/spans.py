"""Requests inside the window: the agent's ledger, else annotations, else profiler steps, else the whole window."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from midwatch.trace.columns import Table
from midwatch.trace.intervals import Cover, Ints, distinct
from midwatch.trace.load import Trace
from midwatch.trace.threads import Threads

if TYPE_CHECKING:
    from midwatch.model.requests import UnitRecord, Workload

_REQUEST = re.compile(
    r"^(?:midwatch|request|req|infer|predict|serve|handle|batch|iteration|forward_pass)\b", re.IGNORECASE
)
_DISTURBED = 0.05
_STEP = re.compile(r"^ProfilerStep#\d+$")


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of one thread that works for a request. ``lanes`` are the trace's lanes of that thread."""

    thread_id: int
    lanes: tuple[int, ...]
    start: int
    end: int
    is_unit: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A unit on the trace's own clock."""

    start: int
    end: int
    record: UnitRecord


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """One request, in nanoseconds of the trace."""

    index: int
    route: str
    start: int
    end: int
    whole: bool
    thread_id: int
    parts: tuple[Part, ...]
    workload: str = ""
    shared: int = 1
    disturbed: bool = False
    """True where the profiler itself stopped it for a good part of its time."""

    @property
    def wall(self) -> int:
        """Nanoseconds from start to end."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Spans:
    """All requests; ``basis`` as in `Window`."""

    basis: str
    requests: tuple[RequestSpan, ...]

    @property
    def whole(self) -> tuple[RequestSpan, ...]:
        """Those that lie inside the window from start to end."""
        return tuple(r for r in self.requests if r.whole)

    @property
    def fair(self) -> tuple[RequestSpan, ...]:
        """The whole ones that the profiler did not disturb, or all whole ones where it disturbed most of them."""
        fair = tuple(r for r in self.requests if r.whole and not r.disturbed)
        return fair if 2 * len(fair) >= len(self.whole) else self.whole


def find_spans(trace: Trace, threads: Threads, window: tuple[int, int], lost: Ints) -> Spans:
    """Take the best witness of requests that the trace has.

    Args:
        trace: The trace.
        threads: Its threads.
        window: Start and end of the window.
        lost: When work was launched of which there is no record.
    """
    found = _ledger(trace, threads, window) or _annotated(trace, threads)
    if found is not None:
        stops = Cover.union(trace.overhead.start, trace.overhead.end)
        return Spans(
            found.basis,
            tuple(replace(r, disturbed=stops.inside(r.start, r.end) > _DISTURBED * r.wall) for r in found.requests),
        )
    main = _busiest(trace)
    window = _recorded(window, lost)
    lanes = dict.fromkeys([*([main] if main >= 0 else []), *distinct(trace.runtime.lane).tolist()])
    parts = tuple(Part(threads.native[lane], (lane,), *window) for lane in lanes)
    return Spans(
        "window", (RequestSpan(0, "window", *window, whole=True, thread_id=threads.native.get(main, 0), parts=parts),)
    )


def _recorded(window: tuple[int, int], lost: Ints) -> tuple[int, int]:
    """The stretch of the window without lost records, if it is most of it: they are lost at its edges above all."""
    edges = [window[0] - 1, *sorted(lost.tolist()), window[1]]
    longest = max(((a + 1, b) for a, b in itertools.pairwise(edges)), key=lambda pair: pair[1] - pair[0])
    return longest if 2 * (longest[1] - longest[0]) > window[1] - window[0] else window


def _busiest(trace: Trace) -> int:
    lanes = trace.ops.lane if len(trace.ops) else trace.runtime.lane
    return int(np.bincount(lanes).argmax()) if len(lanes) else -1


def _worked(trace: Trace) -> list[int]:
    """Lanes of threads that ran operators or called the runtime."""
    lanes: list[int] = distinct(np.concatenate([trace.runtime.lane, trace.ops.lane])).tolist()
    return lanes


def _ledger(trace: Trace, threads: Threads, window: tuple[int, int]) -> Spans | None:
    tracks = trace.tracks
    if tracks is None or not (tracks.requests or tracks.units):
        return None
    worked = set(_worked(trace))
    placed = _placed(trace, tracks.units)
    spans = []
    for index, record in enumerate(tracks.requests):
        start = trace.local(record.start_unix_ns)
        end = start + record.duration_ns
        whole = record.status != "running" and start >= window[0] and end <= window[1]
        lanes = tuple(lane for lane in threads.lanes(record.thread_id) if lane in worked)
        own = Part(record.thread_id, lanes, start, end)
        units = [u for u in placed if u.start >= start and u.end <= end]
        if any(u.record.thread_id == record.thread_id for u in units):
            units = []  # its own thread does the work, and what others do meanwhile is not for this request
        parts = (own, *_unit_parts(threads, units, placed, start, end))
        shared = max((u.record.requests for u in units), default=1)
        route = record.route or "request"
        spans.append(
            RequestSpan(
                index,
                route,
                start,
                end,
                whole,
                record.thread_id,
                parts,
                _workload(record.workload, units),
                max(shared, 1),
            ),
        )
    if not spans:
        return _units_alone(threads, placed, window)
    return Spans("ledger", tuple(spans))


def _placed(trace: Trace, units: tuple[UnitRecord, ...]) -> list[Placed]:
    found = []
    for unit in units:
        start = trace.local(unit.start_unix_ns)
        found.append(Placed(start, start + unit.duration_ns, unit))
    return sorted(found, key=lambda u: u.start)


def _unit_parts(threads: Threads, mine: list[Placed], everyone: list[Placed], start: int, end: int) -> tuple[Part, ...]:
    """One part for each thread that ran the request's units: between the units of others, before and after its own.

    What the thread does around its own units (features before, results after) is work for this request, too.
    """
    parts = []
    for thread_id in dict.fromkeys(u.record.thread_id for u in mine):
        first = min(u.start for u in mine if u.record.thread_id == thread_id)
        last = max(u.end for u in mine if u.record.thread_id == thread_id)
        others = [u for u in everyone if u.record.thread_id == thread_id]
        opens = max((u.end for u in others if u.end <= first and u.start < start), default=start)
        closes = min((u.start for u in others if u.start >= last), default=end)
        parts.append(Part(thread_id, threads.lanes(thread_id), max(opens, start), min(closes, end), is_unit=True))
    return tuple(parts)


def _units_alone(threads: Threads, placed: list[Placed], window: tuple[int, int]) -> Spans:
    spans = []
    for index, unit in enumerate(placed):
        record = unit.record
        part = Part(record.thread_id, threads.lanes(record.thread_id), unit.start, unit.end, is_unit=True)
        whole = unit.start >= window[0] and unit.end <= window[1]
        workload = _workload(record.workload, [])
        spans.append(RequestSpan(index, record.name, unit.start, unit.end, whole, record.thread_id, (part,), workload))
    return Spans("ledger", tuple(spans))


def _workload(workload: Workload, units: list[Placed]) -> str:
    if workload.inputs or not units:
        return workload.key
    return units[0].record.workload.key


def _annotated(trace: Trace, threads: Threads) -> Spans | None:
    table = trace.annotations
    names = [trace.names[n] for n in table.name.tolist()]
    requests = [i for i, name in enumerate(names) if _REQUEST.match(name)]
    if requests:
        common = Counter(names[i] for i in requests).most_common(1)[0][0]
        requests = _outermost(table, [i for i in requests if names[i] == common])
        return _from_rows(trace, threads, requests, names, "annotation")
    steps = [i for i, name in enumerate(names) if _STEP.match(name)]
    if steps:
        return _from_rows(trace, threads, _outermost(table, steps), names, "step")
    return None


def _outermost(table: Table, rows: list[int]) -> list[int]:
    """Rows not inside another row of the same thread."""
    reach: dict[int, int] = {}
    kept = []
    for row in rows:
        lane = int(table.lane[row])
        if int(table.start[row]) >= reach.get(lane, -1):
            kept.append(row)
            reach[lane] = int(table.end[row])
    return kept


def _from_rows(trace: Trace, threads: Threads, rows: list[int], names: list[str], basis: str) -> Spans:
    table = trace.annotations
    own = {int(table.lane[row]) for row in rows}
    worked = _worked(trace) if len(own) == 1 else []
    spans = []
    for index, row in enumerate(rows):
        start, end, lane = int(table.start[row]), int(table.end[row]), int(table.lane[row])
        lanes = [lane, *(w for w in worked if w != lane)]
        parts = tuple(Part(threads.native[x], (x,), start, end) for x in lanes)
        route = "step" if basis == "step" else names[row]
        spans.append(RequestSpan(index, route, start, end, True, threads.native[lane], parts))
    return Spans(basis, tuple(spans))
