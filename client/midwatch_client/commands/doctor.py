"""`midwatch doctor`: what works on this machine, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from midwatch_client.commands.common import (
    DEFAULT_COLLECTOR,
    CollectorOption,
    JsonFlag,
    console,
    listing,
    print_json,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from midwatch.model.status import Part
    from rich.table import Table

_STYLES = {"on": "green", "off": "dim", "unavailable": "yellow", "failed": "red"}


def doctor(ctx: typer.Context, collector: CollectorOption = DEFAULT_COLLECTOR, json_: JsonFlag = False) -> None:
    """Say what works on this machine, and what does not.

    Each line gives the reason. Run it with the Python of the service.

    The exit code is 1 where a line says failed: a setting that was not understood, a package or a folder that Midwatch
    cannot do without, a collector that was named (--collector, MIDWATCH_COLLECTOR) and cannot be reached, a service
    here of which something has failed. What is unavailable, such as a GPU on a machine without one, is no failure.
    """
    from midwatch_client.checks import examine

    source = ctx.get_parameter_source("collector")
    parts = examine(collector, named=source is not None and source.name != "DEFAULT")
    if json_:
        print_json(listing("doctor", parts))
    else:
        console().print(_table(parts))
    if any(part.state == "failed" for part in parts):
        raise typer.Exit(1)


def _table(parts: Sequence[Part]) -> Table:
    from rich.table import Table

    from midwatch_client.console import Cell

    table = Table(box=None, pad_edge=False, show_header=False)
    for part in parts:
        table.add_row(part.name, Cell(part.state, _STYLES.get(part.state, "")), Cell(part.detail))
    return table
