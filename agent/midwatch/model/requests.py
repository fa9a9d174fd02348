"""Requests, units and their statistics (tier 0, the ledger)."""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.workload import Workload

__all__ = ["LatencySketch", "RequestRecord", "RouteStats", "UnitRecord", "Workload"]


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One finished (or still overdue) request. Times are Unix nanoseconds and durations nanoseconds."""

    request_id: int
    route: str
    start_unix_ns: int
    duration_ns: int
    thread_id: int = 0
    """Native id of the thread that entered the request."""
    thread_ident: int = 0
    """`threading.get_ident` of it; a trace may know the thread by the low half of this number."""
    thread_name: str = ""
    is_async: bool = False
    cpu_ns: int = 0
    """CPU time of the entering thread; meaningless, and 0, for asynchronous requests."""
    gc_ns: int = 0
    in_flight: int = 1
    status: str = "ok"
    """``ok``, ``error``, ``cancelled`` or ``running``."""
    trace_id: str = ""
    compile_events: int = 0
    warmup: bool = False
    workload: Workload = Workload()


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """One piece of device-side work (a batch, a decode step): by default an outermost root-module call."""

    unit_id: int
    name: str
    start_unix_ns: int
    duration_ns: int
    thread_id: int = 0
    thread_ident: int = 0
    thread_name: str = ""
    requests: int = 0
    """Requests that were in flight while it ran."""
    workload: Workload = Workload()


@dataclass(frozen=True, slots=True)
class LatencySketch:
    """A DDSketch of latencies in nanoseconds (Masson, Rim, Lee: VLDB 2019): relative error ``alpha``.

    ``buckets`` maps a bucket index to its count as pairs sorted by index.
    """

    alpha: float
    count: int
    sum_ns: int
    min_ns: int
    max_ns: int
    buckets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RouteStats:
    """What one route did in one interval. Warm-up requests are counted, but not in the sketch."""

    route: str
    start_unix_ns: int
    end_unix_ns: int
    requests: int
    errors: int
    warmup: int
    spikes: int
    sketch: LatencySketch
    gc_ns: int = 0
