"""Requests inside the window: the agent's ledger, else annotations, else profiler steps, else the whole window."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from midwatch.model.requests import UnitRecord, Workload
from midwatch.trace.columns import Table
from midwatch.trace.intervals import Cover
from midwatch.trace.load import Trace
from midwatch.trace.threads import Threads

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


def find_spans(trace: Trace, threads: Threads, window: tuple[int, int]) -> Spans:
    """Take the best witness of requests that the trace has."""
    found = _ledger(trace, threads, window) or _annotated(trace, threads)
    if found is not None:
        stops = Cover.union(trace.overhead.start, trace.overhead.end)
        return Spans(
            found.basis,
            tuple(replace(r, disturbed=stops.inside(r.start, r.end) > _DISTURBED * r.wall) for r in found.requests),
        )
    main = _busiest(trace)
    lanes = dict.fromkeys([*([main] if main >= 0 else []), *np.unique(trace.runtime.lane).tolist()])
    parts = tuple(Part(threads.native[lane], (lane,), *window) for lane in lanes)
    return Spans(
        "window", (RequestSpan(0, "window", *window, whole=True, thread_id=threads.native.get(main, 0), parts=parts),)
    )


def _busiest(trace: Trace) -> int:
    lanes = trace.ops.lane if len(trace.ops) else trace.runtime.lane
    return int(np.bincount(lanes).argmax()) if len(lanes) else -1


def _ledger(trace: Trace, threads: Threads, window: tuple[int, int]) -> Spans | None:
    tracks = trace.tracks
    if tracks is None or not (tracks.requests or tracks.units):
        return None
    worked = set(np.unique(np.concatenate([trace.runtime.lane, trace.ops.lane])).tolist())
    spans = []
    for index, record in enumerate(tracks.requests):
        start = trace.local(record.start_unix_ns)
        end = start + record.duration_ns
        whole = record.status != "running" and start >= window[0] and end <= window[1]
        lanes = tuple(lane for lane in threads.lanes(record.thread_id) if lane in worked)
        own = Part(record.thread_id, lanes, start, end)
        units = _units_during(trace, threads, tracks.units, start, end)
        if any(part.thread_id == record.thread_id for part, _ in units):
            units = []
        parts = (own, *(part for part, _ in units))
        shared = max((unit.requests for _, unit in units), default=1)
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
        return _units_alone(trace, threads, tracks.units, window)
    return Spans("ledger", tuple(spans))


def _units_during(
    trace: Trace, threads: Threads, units: tuple[UnitRecord, ...], start: int, end: int
) -> list[tuple[Part, UnitRecord]]:
    found = []
    for unit in units:
        a = trace.local(unit.start_unix_ns)
        b = a + unit.duration_ns
        if min(b, end) > max(a, start):
            part = Part(unit.thread_id, threads.lanes(unit.thread_id), max(a, start), min(b, end), is_unit=True)
            found.append((part, unit))
    return found


def _units_alone(trace: Trace, threads: Threads, units: tuple[UnitRecord, ...], window: tuple[int, int]) -> Spans:
    spans = []
    for index, unit in enumerate(units):
        start = trace.local(unit.start_unix_ns)
        end = start + unit.duration_ns
        part = Part(unit.thread_id, threads.lanes(unit.thread_id), start, end, is_unit=True)
        whole = start >= window[0] and end <= window[1]
        workload = _workload(unit.workload, [])
        spans.append(RequestSpan(index, unit.name, start, end, whole, unit.thread_id, (part,), workload))
    return Spans("ledger", tuple(spans))


def _workload(workload: Workload, units: list[tuple[Part, UnitRecord]]) -> str:
    if workload.inputs or not units:
        return workload.key
    return units[0][1].workload.key


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
    worked = np.unique(np.concatenate([trace.runtime.lane, trace.ops.lane])).tolist() if len(own) == 1 else []
    spans = []
    for index, row in enumerate(rows):
        start, end, lane = int(table.start[row]), int(table.end[row]), int(table.lane[row])
        lanes = [lane, *(w for w in worked if w != lane)]
        parts = tuple(Part(threads.native[x], (x,), start, end) for x in lanes)
        route = "step" if basis == "step" else names[row]
        spans.append(RequestSpan(index, route, start, end, True, threads.native[lane], parts))
    return Spans(basis, tuple(spans))
