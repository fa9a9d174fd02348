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


def incidents_table(incidents: Sequence[Incident], now_unix_ns: int) -> Table:
    """Return incidents as a table, in the order given."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("id", no_wrap=True)
    table.add_column("last seen", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("service", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("gain", justify="right", no_wrap=True)
    table.add_column("what", overflow="fold", ratio=1)
    for incident in incidents:
        table.add_row(
            incident.incident_id[:ID_COLUMNS],
            ago(incident.last_seen_unix_ns, now_unix_ns),
            f"{incident.count:,}",
            Text(incident.service),
            incident.kind.value,
            ms(incident.latest.recoverable_ms) if incident.latest else "",
            Text(incident.title),
        )
    return table
