"""What a batch becomes before it is written: everything that needs no database is done by then."""

from __future__ import annotations

from dataclasses import dataclass, field

from midwatch.model.capture import Capture
from midwatch.model.incident import Incident, Occurrence

from midwatch_server.incidents import Sighting
from midwatch_server.store.rows import Row


@dataclass(frozen=True, slots=True)
class Intake:
    """One batch as rows. ``captures`` are those of ``capture_rows``, without their summaries."""

    batch: Row
    agent: Row
    route_stats: tuple[Row, ...] = ()
    gpu_samples: tuple[Row, ...] = ()
    host_samples: tuple[Row, ...] = ()
    spike_rows: tuple[Row, ...] = ()
    capture_rows: tuple[Row, ...] = ()
    trace_rows: tuple[Row, ...] = ()
    captures: tuple[Capture, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    remarks: tuple[tuple[str, int], ...] = ()
    """What was refused or left out, in sentences for the log, and how often."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What was committed, for the answer to the sender and for those who wait for news."""

    batch_id: str
    duplicate: bool = False
    rejected_records: int = 0
    reason: str = ""
    captures: tuple[Capture, ...] = ()
    traces: tuple[str, ...] = ()
    """Captures whose raw trace is complete with this batch."""
    sightings: tuple[tuple[Incident, Occurrence], ...] = field(default=())
    """Those that are new, and the incidents as they stand after them."""
