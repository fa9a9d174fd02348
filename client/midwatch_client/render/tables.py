"""Lists as tables."""

from __future__ import annotations

from collections.abc import Sequence

from midwatch.model.incident import Incident
from midwatch_server.diagnosis.words import ms
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from midwatch_client.render.wording import ago

ID_COLUMNS = 12
FILE_PARTS = 2
"""Of a path: what tells files apart without filling the terminal."""


def incidents_table(incidents: Sequence[Incident], now_unix_ns: int) -> Table:
    """Return incidents as a table, in the order given: one line each where the terminal is wide enough."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("id", no_wrap=True)
    table.add_column("last seen", no_wrap=True)
    table.add_column("times", justify="right", no_wrap=True)
    table.add_column("service")
    table.add_column("kind", no_wrap=True)
    table.add_column("gain", justify="right", no_wrap=True)
    table.add_column("where", overflow="fold")
    for incident in incidents:
        table.add_row(
            incident.incident_id[:ID_COLUMNS],
            ago(incident.last_seen_unix_ns, now_unix_ns),
            f"{incident.count:,}",
            Text(f"{incident.service} {incident.route}"),
            incident.kind.value,
            ms(incident.latest.recoverable_ms) if incident.latest else "",
            Text(_where(incident)),
        )
    return table


def _where(incident: Incident) -> str:
    """Return the place of the latest finding; the title where there is no place."""
    site = incident.latest.site if incident.latest else None
    if site is None or not site.file:
        return incident.title
    file = "/".join(site.file.split("/")[-FILE_PARTS:])
    line = f":{site.line}" if site.exact and site.line > 0 else ""
    return f"{file}{line} {site.function}"
