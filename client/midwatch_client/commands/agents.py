"""`midwatch agents`: who is connected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from midwatch_client.commands.common import DEFAULT_COLLECTOR, CollectorOption, JsonFlag, console, listing, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from midwatch.model.status import AgentStatus, AgentView
    from rich.table import Table


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
        console().print(_table(found, time.time_ns()))
    else:
        console().print(
            f"No agent is connected to {collector}. Add `import midwatch.auto` to a service, "
            "or start it with `midwatch run -- …`."
        )


def _table(found: Sequence[AgentView], now_unix_ns: int) -> Table:
    from rich.table import Table

    from midwatch_client.console import Cell

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (
        "service",
        "host",
        "pid",
        "state",
        "requests",
        "spikes",
        "windows",
        "engine",
        "torch",
        "last heard",
        "what is off",
    ):
        table.add_column(name, justify="right" if name in ("pid", "requests", "spikes", "windows") else "left")
    for view in found:
        table.add_row(*map(Cell, _row(view, now_unix_ns)))
    return table


def _row(view: AgentView, now_unix_ns: int) -> tuple[str, ...]:
    resource, status = view.resource, view.status
    counts: tuple[str, ...] = ("", "", "")
    state, engine, off = "connected" if view.connected else "gone", "", ""
    if status is not None:
        counts = (str(status.requests), str(status.spikes), str(status.windows))
        state = status.state if view.connected else "gone"
        engine = status.engine
        off = "; ".join(line.rstrip(".") for line in complaints(status))
    heard = f"{max(0.0, (now_unix_ns - view.last_seen_unix_ns) / 1e9):.0f} s ago"
    return (resource.service, resource.host, str(resource.pid), state, *counts, engine, resource.torch, heard, off)


def complaints(status: AgentStatus) -> list[str]:
    """What is off in an agent, what became of its windows, and what was lost; nothing twice."""
    from midwatch_client.render.losses import loss

    said = list(filter(None, [status.detail]))
    for part in status.parts:
        off = part.state in ("failed", "unavailable") or (part.name == "windows" and part.detail)
        if off and not (part.detail and any(part.detail in line for line in said)):
            said.append(f"{part.name}: {part.detail or part.state}")
    return [*said, *(loss(reason, count) for reason, count in status.drops)]
