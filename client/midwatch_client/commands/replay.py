"""`midwatch replay`: what the live detector would have flagged in recorded latencies."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midwatch_client.commands.common import Failure, JsonFlag, console, print_json

if TYPE_CHECKING:
    from midwatch_client.replaying import Flagged, Outcome, RouteOutcome

SCHEMA = "midwatch.replay.v1"


def replay(
    latencies: Annotated[
        str,
        typer.Argument(
            metavar="LATENCIES.csv", help="A row for each request, .csv or .csv.gz; - reads standard input."
        ),
    ],
    slo_ms: Annotated[
        float, typer.Option("--slo-ms", metavar="MS", help="MIDWATCH_SLO_MS of the service; 0 is none.")
    ] = 0.0,
    warmup: Annotated[
        int,
        typer.Option("--warmup", min=0, max=1_000_000, metavar="N", help="MIDWATCH_WARMUP_REQUESTS of the service."),
    ] = 20,
    route: Annotated[str | None, typer.Option("--route", metavar="R", help="Look at this route alone.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, max=10_000, metavar="N", help="Most flagged requests to list of a route.")
    ] = 20,
    json_: JsonFlag = False,
) -> None:
    """Say what the live detector would have flagged in recorded latencies, and why.

    Columns are found by name: latency_ms (or duration, elapsed, seconds...), and where there are such, the time, the
    route and the shape of inputs. A single column of milliseconds needs no name.
    """
    outcome = judged(latencies, slo_ms=slo_ms, warmup=warmup, route=route, limit=limit)
    if json_:
        print_json(document_of(outcome))
    else:
        from midwatch_client.render.replay import print_outcome

        print_outcome(outcome, console())


def judged(source: str, *, slo_ms: float, warmup: int, route: str | None, limit: int) -> Outcome:
    """Read and judge a table. Raises `Failure` with one sentence where it cannot be read."""
    from midwatch_client.latencies import MOST_MS, Table
    from midwatch_client.opentext import opened
    from midwatch_client.replaying import Outcome, take_all

    if not 0 <= slo_ms <= MOST_MS:
        raise Failure(f"--slo-ms {slo_ms:g} is no duration; give milliseconds, such as 200, or 0 for none", 2)
    with opened(source) as file, _shown(file.name) as progress:
        table = Table(file, progress)
        if route is not None and table.columns.route is None:
            raise Failure(f"{table.name} has no column of routes to choose {route} from; leave out --route")
        outcome = Outcome(table.name, table.columns, warmup, slo_ms)
        take_all(outcome, table.rows(), only=route, limit=limit)
    return outcome


def document_of(outcome: Outcome) -> dict[str, Any]:
    """Return the JSON document, as docs/detection.md describes it."""
    columns = outcome.columns
    named = {
        "latency": columns.latency,
        "ended": columns.ended,
        "started": columns.started,
        "route": columns.route,
        "shape": columns.shape,
    }
    return {
        "schema": SCHEMA,
        "file": outcome.name,
        "columns": {key: (column.name or None) if column else None for key, column in named.items()},
        "latency_unit": columns.latency.unit,
        "settings": {"warmup_requests": outcome.warmup, "slo_ms": outcome.slo_ms},
        "requests": outcome.requests,
        "flagged": sum(one.spikes for one in outcome.routes.values()),
        "out_of_order": outcome.late if outcome.timed else None,
        "routes": [_route(one, timed=outcome.timed) for one in outcome.routes.values()],
    }


def _route(one: RouteOutcome, *, timed: bool) -> dict[str, Any]:
    from midwatch.model.plain import to_plain

    from midwatch_client.render.replaywords import conclusive, verdict

    detector, every = one.replay.detector, one.replay.all_requests()
    return {
        "route": one.route,
        "requests": one.replay.requests,
        "warmup_requests": one.warmup,
        "p50_ms": every.p50_ms,
        "p99_ms": every.p99_ms,
        "max_ms": one.replay.max_ms,
        "deadline_ms": None if detector.warming_up else detector.limit_ns / 1e6,
        "rule": None if detector.warming_up else detector.rule,
        "baseline": to_plain(one.usual),
        "judged_by_rule": dict(one.replay.judged_by),
        "flagged": one.spikes,
        "told": one.replay.told if timed else None,
        "conclusive": conclusive(one),
        "verdict": verdict(one, timed=timed),
        "spikes": [_spike(spike) for spike in one.flagged],
        "events": [
            {
                "line": noticed.row.line,
                "request": noticed.request,
                "time": noticed.row.time or None,
                "ended_ns": noticed.row.ended_ns,
                "event": noticed.event.value,
            }
            for noticed in one.events
        ],
    }


def _spike(spike: Flagged) -> dict[str, Any]:
    return {
        "line": spike.row.line,
        "request": spike.request,
        "time": spike.row.time or None,
        "ended_ns": spike.row.ended_ns,
        "latency_ms": spike.row.latency_ms,
        "deadline_ms": spike.deadline_ms,
        "rule": spike.rule,
        "times_p50": spike.row.latency_ms / spike.p50_ms if spike.p50_ms else None,
        "told": spike.told,
    }


@contextlib.contextmanager
def _shown(name: str) -> Iterator[Callable[[int, float | None], None] | None]:
    """Show on a terminal how far the reading of a large table is; say nothing anywhere else."""
    if not sys.stderr.isatty():
        yield None
        return
    from midwatch_server.diagnosis.words import percent

    from midwatch_client.console import PlainConsole, line

    status = PlainConsole(sys.stderr).status("")

    def tell(rows: int, share: float | None) -> None:
        of = "" if share is None else f", {percent(share)}"
        status.update(line((f"judging {name}: {rows:,} rows{of}", "")))
        status.start()  # at the first word, so that a small table does not flicker

    try:
        yield tell
    finally:
        status.stop()
