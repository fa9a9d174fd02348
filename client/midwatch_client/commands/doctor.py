"""`midwatch doctor`: what works on this machine, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def doctor(collector: CollectorOption = DEFAULT_COLLECTOR, json_: JsonFlag = False) -> None:
    """Say what works on this machine, and what does not.

    Each line gives the reason. Run it with the Python of the service.
    """
    from midwatch_client.checks import examine

    parts = examine(collector)
    if json_:
        print_json(listing("doctor", parts))
    else:
        console().print(_table(parts))


def _table(parts: Sequence[Part]) -> Table:
    from rich.table import Table

    from midwatch_client.console import Cell

    table = Table(box=None, pad_edge=False, show_header=False)
    for part in parts:
        table.add_row(part.name, Cell(part.state, _STYLES.get(part.state, "")), Cell(part.detail))
    return table
