"""What a replay flagged, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from midwatch_server.diagnosis.words import ms
from rich.console import Console
from rich.table import Table

from midwatch_client.console import line
from midwatch_client.render.grid import grid, lines
from midwatch_client.render.replaywords import RULES, about, event, late, verdict
from midwatch_client.replaying import Flagged, Outcome, RouteOutcome

MAX_WIDTH = 120
ROUTES = ("route", "requests", "warm-up", "p50", "p99", "slowest", "flagged", "told", "deadline", "rule")
SPIKES = ("line", "request", "time", "took", "times p50", "deadline", "told", "rule")
TIMED = ("time", "told")
"""Columns that take a column of times."""
NARROW = 100
SPARED = ("warm-up", "slowest", "request")
"""Columns that give way on a narrow terminal."""
_UNKNOWN = "-"


def print_outcome(outcome: Outcome, console: Console) -> None:
    """Print the routes side by side, then what was flagged of each."""
    width = min(console.width, MAX_WIDTH)
    routes = list(outcome.routes.values())
    lines(console, [about(outcome)], width, style="bold")
    lines(console, filter(None, [late(outcome)]), width, style="yellow")
    console.print()
    rows = [_route_cells(one, timed=outcome.timed) for one in routes]
    console.print(_table(ROUTES, rows, width, left=("route", "rule"), timed=outcome.timed))
    named = {rule for one in routes for rule in (*one.replay.judged_by, _rule(one))}
    lines(console, [f"{rule}: {said}" for rule, said in RULES.items() if rule in named], width, style="dim", hang=2)
    for one in routes:
        console.print()
        _print_route(one, console, width, timed=outcome.timed)


def _print_route(one: RouteOutcome, console: Console, width: int, *, timed: bool) -> None:
    if one.route:
        console.print(line((one.route, "bold")), soft_wrap=True)
    lines(console, [verdict(one, timed=timed)], width)
    lines(console, [event(noticed) for noticed in one.events], width, style="yellow", hang=2)
    if not one.flagged:
        return
    rows = [_spike_cells(spike) for spike in one.flagged]
    console.print(_table(SPIKES, rows, width, left=("time", "rule"), timed=timed))
    left_out = one.spikes - len(one.flagged)
    if left_out:
        more = f"{left_out:,} more {'was' if left_out == 1 else 'were'} flagged; a larger --limit lists more."
        lines(console, [more], width, style="dim")


def _table(
    names: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, left: Sequence[str], timed: bool
) -> Table:
    left_out = {*(() if timed else TIMED), *(SPARED if width < NARROW else ())}
    kept = [at for at, name in enumerate(names) if name not in left_out]
    head = [names[at] for at in kept]
    cells = [[row[at] for at in kept] for row in rows]
    return grid(head, cells, width, left=[head.index(name) for name in left if name in head])


def _route_cells(one: RouteOutcome, *, timed: bool) -> tuple[str, ...]:
    every, limit_ns = one.replay.all_requests(), one.replay.detector.limit_ns
    return (
        one.route or _UNKNOWN,
        f"{one.replay.requests:,}",
        f"{one.warmup:,}",
        ms(every.p50_ms),
        ms(every.p99_ms),
        ms(one.replay.max_ms),
        f"{one.spikes:,}",
        f"{one.replay.told:,}" if timed else _UNKNOWN,
        ms(limit_ns / 1e6) if limit_ns else _UNKNOWN,
        _rule(one),
    )


def _rule(one: RouteOutcome) -> str:
    return _UNKNOWN if one.replay.detector.warming_up else one.replay.detector.rule


def _spike_cells(spike: Flagged) -> tuple[str, ...]:
    return (
        f"{spike.row.line:,}",
        f"{spike.request:,}",
        spike.row.time,
        ms(spike.row.latency_ms),
        f"{spike.row.latency_ms / spike.p50_ms:,.1f}" if spike.p50_ms else _UNKNOWN,
        ms(spike.deadline_ms),
        "yes" if spike.told else "no",
        spike.rule,
    )
