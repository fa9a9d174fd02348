"""Writes one batch, or one sign of life, inside a transaction of the writer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from midwatch.model.finding import Finding, Kind
from midwatch.model.incident import Incident, Occurrence
from midwatch.wire import dump, load
from sqlalchemy import Connection, Table, case, func, select
from sqlalchemy.dialects.sqlite import Insert, insert

from midwatch_server.incidents import Sighting, better
from midwatch_server.store import schema
from midwatch_server.store.intake import Intake, Stored
from midwatch_server.store.rows import Row


def store_batch(connection: Connection, intake: Intake) -> Stored:
    """Write a batch unless it is there already, and say what is new."""
    batch = intake.batch
    new = insert(schema.batches).values(batch).on_conflict_do_nothing()
    if connection.execute(new).rowcount == 0:
        return _stored_before(connection, batch)
    store_agent(connection, intake.agent)
    for table, rows in (
        (schema.route_stats, intake.route_stats),
        (schema.gpu_samples, intake.gpu_samples),
        (schema.host_samples, intake.host_samples),
    ):
        if rows:
            connection.execute(insert(table), rows)
    _replace(connection, schema.spikes, intake.spike_rows)
    _replace(connection, schema.captures, intake.capture_rows)
    _replace(connection, schema.raw_traces, intake.trace_rows)
    seen = [_count(connection, sighting) for sighting in intake.sightings]
    return Stored(
        batch["batch_id"],
        rejected_records=batch["rejected_records"],
        reason=batch["reason"],
        captures=intake.captures,
        traces=tuple(row["capture_id"] for row in intake.trace_rows),
        sightings=tuple(pair for pair in seen if pair is not None),
    )


def store_agent(connection: Connection, row: Row) -> None:
    """Write that an agent was heard of; an older status does not replace a newer one."""
    table = schema.agents
    statement = insert(table).values(row)
    given = statement.excluded
    newer = (given.status.is_not(None)) & (given.status_unix_ns >= table.c.status_unix_ns)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[table.c.agent_id],
            set_={
                **{name: given[name] for name in ("service", "host", "pid", "resource")},
                "last_seen_unix_ns": func.max(table.c.last_seen_unix_ns, given.last_seen_unix_ns),
                "status_unix_ns": case((newer, given.status_unix_ns), else_=table.c.status_unix_ns),
                "status": case((newer, given.status), else_=table.c.status),
            },
        )
    )


def _stored_before(connection: Connection, batch: Row) -> Stored:
    table = schema.batches
    found = connection.execute(
        select(table.c.rejected_records, table.c.reason).where(
            table.c.agent_id == batch["agent_id"], table.c.batch_id == batch["batch_id"]
        )
    ).one()
    return Stored(batch["batch_id"], duplicate=True, rejected_records=found.rejected_records, reason=found.reason)


def _replace(connection: Connection, table: Table, rows: tuple[Row, ...]) -> None:
    """Write rows that have a name of their own. The same agent may send one again, another agent may not replace it."""
    if not rows:
        return
    statement: Insert = insert(table)
    key = next(iter(table.primary_key.columns))
    values = {column.name: statement.excluded[column.name] for column in table.columns if column is not key}
    mine = table.c.agent_id == statement.excluded.agent_id
    connection.execute(statement.on_conflict_do_update(index_elements=[key], set_=values, where=mine), rows)


def _count(connection: Connection, sighting: Sighting) -> tuple[Incident, Occurrence] | None:
    """Put a sighting into its group. Returns the group and the occurrence, or None where it was counted before."""
    table = schema.occurrences
    occurrence = sighting.occurrence
    known = connection.execute(
        select(table).where(table.c.incident_id == occurrence.incident_id, table.c.sighting == sighting.key)
    ).one_or_none()
    if known is not None:
        _join(connection, known, occurrence)
        return None
    incident = _group(connection, sighting)
    row = {name: getattr(occurrence, name) for name in _OCCURRENCE_FIELDS}
    connection.execute(insert(table).values(**row, sighting=sighting.key, finding=dump(occurrence.finding)))
    return incident, occurrence


_OCCURRENCE_FIELDS = ("occurrence_id", "incident_id", "unix_ns", "agent_id", "spike_id", "capture_id")


def _join(connection: Connection, known: Any, occurrence: Occurrence) -> None:
    """The window that a spike ordered, or the spike after its window: one sighting with two witnesses."""
    table = schema.occurrences
    finding = better(load(Finding, known.finding), occurrence.finding)
    connection.execute(
        table.update()
        .where(table.c.occurrence_id == known.occurrence_id)
        .values(
            spike_id=known.spike_id or occurrence.spike_id,
            capture_id=known.capture_id or occurrence.capture_id,
            unix_ns=min(known.unix_ns, occurrence.unix_ns),
            finding=dump(finding),
        )
    )
    incidents = schema.incidents
    connection.execute(
        incidents.update()
        .where(incidents.c.incident_id == known.incident_id, incidents.c.latest == known.finding)
        .values(latest=dump(finding), title=finding.title)
    )


def _group(connection: Connection, sighting: Sighting) -> Incident:
    """Make the group, or count it up, and return it as it then stands."""
    table = schema.incidents
    occurrence = sighting.occurrence
    row = connection.execute(select(table).where(table.c.incident_id == occurrence.incident_id)).one_or_none()
    new = Incident(
        incident_id=occurrence.incident_id,
        fingerprint=sighting.fingerprint,
        service=sighting.service,
        route=sighting.route,
        kind=occurrence.finding.kind,
        title=occurrence.finding.title,
        count=1,
        first_seen_unix_ns=occurrence.unix_ns,
        last_seen_unix_ns=occurrence.unix_ns,
        service_version=sighting.service_version,
        latest=occurrence.finding,
    )
    if row is None:
        connection.execute(insert(table).values(incident_row(new)))
        return new
    old = incident_of(row)
    latest = new if new.last_seen_unix_ns >= old.last_seen_unix_ns else old
    grown = replace(
        latest,
        count=old.count + 1,
        first_seen_unix_ns=min(old.first_seen_unix_ns, new.first_seen_unix_ns),
    )
    connection.execute(table.update().where(table.c.incident_id == grown.incident_id).values(incident_row(grown)))
    return grown


def incident_row(incident: Incident) -> Row:
    """The row of a group."""
    row = {column.name: getattr(incident, column.name) for column in schema.incidents.columns}
    return {**row, "kind": incident.kind.value, "latest": dump(incident.latest)}


def incident_of(row: Any) -> Incident:
    """The group of a row."""
    kind = Kind(row.kind) if row.kind in _KINDS else Kind.UNKNOWN
    return Incident(**{**row._asdict(), "kind": kind, "latest": load(Finding, row.latest)})


_KINDS = frozenset(kind.value for kind in Kind)
