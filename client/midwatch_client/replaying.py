"""Recorded requests taken through the live detector, route by route, and what of it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from midwatch.detect.detector import Event, Verdict
from midwatch.detect.replay import RouteReplay
from midwatch.model.spike import Baseline

from midwatch_client.columns import Columns
from midwatch_client.errors import Failure
from midwatch_client.latencies import Row

MOST_ROUTES = 1_000
"""What a route is judged by takes up to a few hundred kilobytes."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Flagged:
    """A request that would have been a spike. ``request`` is its number on its route, from 1 on."""

    row: Row
    request: int
    deadline_ms: float
    rule: str
    p50_ms: float
    """What was usual then; 0.0 where nothing was."""
    told: bool | None


@dataclass(frozen=True, slots=True)
class Noticed:
    """The request at which something became known of many."""

    row: Row
    request: int
    event: Event


@dataclass(slots=True)
class RouteOutcome:
    """What became of one route; ``flagged`` and ``events`` are the first ones alone."""

    route: str
    replay: RouteReplay
    flagged: list[Flagged] = field(default_factory=list)
    events: list[Noticed] = field(default_factory=list)

    @property
    def warmup(self) -> int:
        """How many requests were silent."""
        return self.replay.verdicts[Verdict.WARMUP]

    @property
    def spikes(self) -> int:
        """How many were flagged."""
        return self.replay.verdicts[Verdict.SPIKE]

    @property
    def judged(self) -> int:
        """How many were held against a deadline."""
        return self.replay.requests - self.warmup

    @property
    def usual(self) -> Baseline:
        """What the detector takes for usual at the end."""
        return self.replay.detector.baseline()


@dataclass(slots=True)
class Outcome:
    """What became of a table; ``late`` is how many rows tell an earlier end than one before them."""

    name: str
    columns: Columns
    warmup: int
    slo_ms: float
    routes: dict[str, RouteOutcome] = field(default_factory=dict)
    late: int = 0

    @property
    def requests(self) -> int:
        """How many there were on all routes that were looked at."""
        return sum(one.replay.requests for one in self.routes.values())

    @property
    def timed(self) -> bool:
        """Whether the table tells when requests ended."""
        return self.columns.moment is not None


def take_all(outcome: Outcome, rows: Iterable[Row], *, only: str | None = None, limit: int = 20) -> None:
    """Judge ``rows``, which go into ``outcome``; of each route the first ``limit`` spikes and events are kept.

    Raises:
        Failure: There are no requests, none of the route ``only``, or too many routes.
    """
    last_ns: int | None = None
    others: dict[str, None] = {}
    for row in rows:
        if only is not None and row.route != only:
            if len(others) < _NAMED:
                others[row.route] = None
            continue
        if row.ended_ns is not None:
            if last_ns is not None and row.ended_ns < last_ns:
                outcome.late += 1
            else:
                last_ns = row.ended_ns
        one = outcome.routes.get(row.route)
        if one is None:
            one = outcome.routes[row.route] = _begun(outcome, row)
        _take(one, row, limit)
    if not outcome.routes and only is not None and others:
        seen = ", ".join(filter(None, others)) or "none with a name"
        raise Failure(f"{outcome.name} has no request of the route {only}; there is {seen}")
    if not outcome.routes:
        raise Failure(f"{outcome.name} holds no latencies; give a CSV with a row for each request")


def _begun(outcome: Outcome, row: Row) -> RouteOutcome:
    if len(outcome.routes) >= MOST_ROUTES:
        raise Failure(
            f"{outcome.name}, line {row.line}: more than {MOST_ROUTES:,} routes; choose one with --route, "
            "or write routes as templates, such as /items/{id}"
        )
    return RouteOutcome(row.route, RouteReplay(warmup=outcome.warmup, slo_ms=outcome.slo_ms))


def _take(one: RouteOutcome, row: Row, limit: int) -> None:
    replay = one.replay
    replayed = replay.take(row.latency_ms, shape=row.shape, ended_ns=row.ended_ns)
    judgement = replayed.judgement
    if judgement.verdict is Verdict.SPIKE and len(one.flagged) < limit:
        limit_ms, p50_ms = judgement.limit_ns / 1e6, replay.detector.baseline(row.shape).p50_ms
        one.flagged.append(Flagged(row, replay.requests, limit_ms, judgement.rule, p50_ms, replayed.told))
    if judgement.event is not None and len(one.events) < limit:
        one.events.append(Noticed(row, replay.requests, judgement.event))
