"""Incidents as they come in: a thread that follows the collector, and one printed line for each incident."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator

from midwatch.model.incident import Incident

from midwatch_client.api import Client, Sighting
from midwatch_client.errors import CollectorError


class Watch:
    """Follows the sightings of one service; `fresh` gives each incident once."""

    def __init__(self, address: str, service: str) -> None:
        self._client = Client(address)
        self._service = service
        self._seen: queue.SimpleQueue[Sighting] = queue.SimpleQueue()
        self._known: set[str] = set()
        self._thread = threading.Thread(target=self._follow, name="watch-incidents", daemon=True)
        self._thread.start()

    def fresh(self) -> Iterator[Incident]:
        """Incidents that were not given yet; never waits."""
        with contextlib.suppress(queue.Empty):
            while True:
                incident = self._seen.get_nowait().incident
                if incident.incident_id not in self._known:
                    self._known.add(incident.incident_id)
                    yield incident

    def close(self) -> None:
        """Hang up."""
        self._client.close()
        self._thread.join(timeout=2.0)

    def _follow(self) -> None:
        # Ends with the connection: by `close`, or because the collector went away, which the demo notices by itself.
        with contextlib.suppress(CollectorError, ValueError):
            for sighting in self._client.watch_incidents(self._service, since_unix_ns=1):
                self._seen.put(sighting)


def line(incident: Incident) -> str:
    """One incident on one line."""
    finding = incident.latest
    site = finding.site if finding is not None else None
    where = f"{site.file}:{site.line}{'' if site.exact else ' (about)'}" if site is not None else "line not known"
    cost = f"{finding.per_request_ms:.0f} ms a request" if finding is not None else ""
    return f"{incident.kind.value:<14} {incident.route:<22} {where}  {cost}  [{incident.incident_id[:12]}]"
