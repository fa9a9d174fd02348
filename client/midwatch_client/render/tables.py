"""Lists as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from midwatch.model.incident import Incident
from midwatch_server.diagnosis.words import ms
from midwatch_server.visible import visible
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group
from rich.table import Table

from midwatch_client.console import Cell
from midwatch_client.render.wording import ago

ID_COLUMNS = 12
FILE_PARTS = 2
"""Of a path: what tells files apart without filling the terminal."""
_BETWEEN = 3
_NARROW = 70
"""Below so many columns when and how often it was seen make room for what and where."""
_MOST_TITLE = 40
"""An incident without a place is listed by its title, which may be broken."""


class IncidentsTable:
    """Incidents in the order given: one line each where the terminal is wide enough, else the place below the kind."""

    def __init__(self, incidents: Sequence[Incident], now_unix_ns: int) -> None:
        self._incidents = incidents
        self._seen = [_seen(incident, now_unix_ns) for incident in incidents]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """Draw it into the width that there is."""
        width = options.max_width
        yield self._flat() if self._columns() <= width else self._stacked(brief=width < _NARROW)

    def _columns(self) -> int:
        """Return how wide the table with a line for each incident is, no place broken."""
        rows = [
            (*seen, _whose(one), one.kind.value, _gain(one), _place(one) or one.title[:_MOST_TITLE])
            for one, seen in zip(self._incidents, self._seen, strict=True)
        ]
        return sum(max(cell_len(visible(cell)) for cell in column) + _BETWEEN for column in zip(*rows, strict=True))

    def _flat(self) -> Table:
        table = _table()
        for name in ("service", "kind"):
            table.add_column(name, no_wrap=name == "kind")
        table.add_column("gain", justify="right", no_wrap=True)
        table.add_column("where")
        for one, seen in zip(self._incidents, self._seen, strict=True):
            where = Cell(_place(one) or one.title)
            table.add_row(*map(Cell, seen), Cell(_whose(one)), one.kind.value, _gain(one), where)
        return table

    def _stacked(self, *, brief: bool) -> Table:
        table = _table(brief=brief)
        table.add_column("gain", justify="right", no_wrap=True)
        table.add_column("what and where")
        for one, seen in zip(self._incidents, self._seen, strict=True):
            what = Cell(f"{one.kind.value} in {_whose(one)}")
            known = seen[:1] if brief else seen
            table.add_row(*map(Cell, known), _gain(one), Group(what, Cell(_place(one) or one.title)))
        return table


def incidents_table(incidents: Sequence[Incident], now_unix_ns: int) -> IncidentsTable:
    """Return incidents as a table, in the order given."""
    return IncidentsTable(incidents, now_unix_ns)


def _table(*, brief: bool = False) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("id", no_wrap=True)
    if not brief:
        table.add_column("last seen", no_wrap=True)
        table.add_column("times", justify="right", no_wrap=True)
    return table


def _seen(incident: Incident, now_unix_ns: int) -> tuple[str, str, str]:
    return incident.incident_id[:ID_COLUMNS], ago(incident.last_seen_unix_ns, now_unix_ns), f"{incident.count:,}"


def _whose(incident: Incident) -> str:
    return f"{incident.service} {incident.route}"


def _gain(incident: Incident) -> str:
    return ms(incident.latest.recoverable_ms) if incident.latest else ""


def _place(incident: Incident) -> str:
    """Return the place of the latest finding, "" where there is none."""
    site = incident.latest.site if incident.latest else None
    if site is None or not site.file:
        return ""
    file = "/".join(site.file.split("/")[-FILE_PARTS:])
    line = f":{site.line}" if site.exact and site.line > 0 else ""
    return f"{file}{line} {site.function}"
