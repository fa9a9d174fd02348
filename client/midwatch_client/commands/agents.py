"""`midwatch agents`: who is connected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from midwatch_client.commands.common import DEFAULT_COLLECTOR, CollectorOption, JsonFlag, console, listing, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from midwatch.model.status import AgentStatus, AgentView
    from rich.console import RenderableType
    from rich.table import Table


COLUMNS = ("service", "host", "pid", "state", "requests", "spikes", "windows", "engine", "torch", "last heard")
_LEAST = ("host", "torch")
"""What is left out of a narrow table; `--json` has it."""
_NARROW = 96
_NEWS = ("windows", "upload")
"""Parts that have something to say while they work: what became of windows, and why the collector refused records."""


def agents(
    service: Annotated[str, typer.Option("--service", help="Only agents of this service.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Also those that are gone.")] = False,
    collector: CollectorOption = DEFAULT_COLLECTOR,
    json_: JsonFlag = False,
) -> None:
    """List the connected agents, and what is off in each."""
    from midwatch_client.api import Client

    with Client(collector) as client:
        found = client.agents(service, connected_only=not every)
    if json_:
        print_json(listing("agents", found))
    elif found:
        out = console()
        out.print(_table(found, time.time_ns(), narrow=out.width < _NARROW))
        for part in _off(found):
            out.print(part)
    else:
        console().print(
            f"No agent is connected to {collector}. Add `import midwatch.auto` to a service, "
            "or start it with `midwatch run -- …`."
        )


def _table(found: Sequence[AgentView], now_unix_ns: int, *, narrow: bool) -> Table:
    from rich.table import Table

    from midwatch_client.console import Cell

    table = Table(box=None, pad_edge=False, header_style="bold")
    names = [name for name in COLUMNS if not (narrow and name in _LEAST)]
    for name in names:
        numbers = name in ("pid", "requests", "spikes", "windows")
        table.add_column(name, justify="right" if numbers else "left", no_wrap=numbers)
    for view in found:
        row = dict(zip(COLUMNS, _row(view, now_unix_ns), strict=True))
        table.add_row(*(Cell(row[name]) for name in names))
    return table


def _row(view: AgentView, now_unix_ns: int) -> tuple[str, ...]:
    resource, status = view.resource, view.status
    counts: tuple[str, ...] = ("", "", "")
    state, engine = "connected" if view.connected else "gone", ""
    if status is not None:
        counts = (str(status.requests), str(status.spikes), str(status.windows))
        state = status.state if view.connected else "gone"
        engine = status.engine
    heard = f"{max(0.0, (now_unix_ns - view.last_seen_unix_ns) / 1e9):.0f} s ago"
    return (resource.service, resource.host, str(resource.pid), state, *counts, engine, resource.torch, heard)


def _off(found: Sequence[AgentView]) -> Iterator[RenderableType]:
    """What is off, by agent: below the table, since it is said in sentences."""
    from rich.padding import Padding

    from midwatch_client.console import Cell, line

    for view in found:
        said = complaints(view.status) if view.status is not None else []
        if said:
            yield line()
            yield line((f"{view.resource.service}, pid {view.resource.pid}", "bold"), (": what is off", ""))
            yield from (Padding(Cell(sentence), (0, 0, 0, 2)) for sentence in said)


def complaints(status: AgentStatus) -> list[str]:
    """What is off in an agent, what became of its windows, and what was lost; nothing twice."""
    from midwatch_client.render.losses import loss

    said = list(filter(None, [status.detail]))
    for part in status.parts:
        off = part.state in ("failed", "unavailable") or (part.name in _NEWS and part.detail)
        if off and not (part.detail and any(part.detail in line for line in said)):
            said.append(f"{part.name}: {part.detail or part.state}")
    return [*said, *(loss(reason, count) for reason, count in status.drops)]
