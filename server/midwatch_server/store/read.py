"""Questions to the store, as functions over a connection that reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis, Finding
from midwatch.model.incident import CaptureDetail, Incident, IncidentDetail, Occurrence, SpikeDetail
from midwatch.model.resource import Resource
from midwatch.model.spike import Spike
from midwatch.model.status import AgentStatus, AgentView
from midwatch.model.trace import TraceSummary
from midwatch.wire import load
from sqlalchemy import Column, Connection, Select, Table, select

from midwatch_server.errors import BadRequestError, NotFoundError
from midwatch_server.store import schema
from midwatch_server.store.write import incident_of


def agents(connection: Connection, *, service: str, limit: int) -> list[AgentView]:
    """Agents, the latest heard of first."""
    table = schema.agents
    query = select(table).order_by(table.c.last_seen_unix_ns.desc(), table.c.agent_id).limit(limit)
    return [
        AgentView(
            resource=load(Resource, row.resource),
            status=load(AgentStatus, row.status) if row.status is not None else None,
            last_seen_unix_ns=row.last_seen_unix_ns,
        )
        for row in connection.execute(_of_service(query, table, service))
    ]


def incidents(connection: Connection, *, service: str, kind: str, since_unix_ns: int, limit: int) -> list[Incident]:
    """Incidents, the latest seen first."""
    table = schema.incidents
    query = select(table).order_by(table.c.last_seen_unix_ns.desc(), table.c.incident_id).limit(limit)
    query = _of_service(query, table, service).where(table.c.last_seen_unix_ns >= since_unix_ns)
    if kind:
        query = query.where(table.c.kind == kind)
    return [incident_of(row) for row in connection.execute(query)]


def incident(connection: Connection, prefix: str, *, limit: int) -> IncidentDetail:
    """One incident with at most ``limit`` occurrences. Raises `NotFoundError` or `BadRequestError`."""
    table = schema.incidents
    incident_id = _complete(connection, table.c.incident_id, prefix, "incident")
    row = connection.execute(select(table).where(table.c.incident_id == incident_id)).one()
    seen = newest_occurrences(connection, incident_id, limit)
    spike_id = next((one.spike_id for one in seen if one.spike_id), "")
    capture_id = next((one.capture_id for one in seen if one.capture_id), "")
    spikes, captures = schema.spikes, schema.captures
    spike_row = connection.execute(select(spikes).where(spikes.c.spike_id == spike_id)).one_or_none()
    capture_row = connection.execute(select(captures).where(captures.c.capture_id == capture_id)).one_or_none()
    return IncidentDetail(
        incident=incident_of(row),
        occurrences=tuple(seen),
        spike=load(Spike, spike_row.evidence) if spike_row else None,
        capture=_whole_capture(capture_row) if capture_row else None,
        resource=_resource(connection, seen[0].agent_id) if seen else None,
    )


def newest_occurrences(connection: Connection, incident_id: str, limit: int) -> list[Occurrence]:
    """Occurrences of an incident, the newest first."""
    table = schema.occurrences
    query = select(table).where(table.c.incident_id == incident_id)
    query = query.order_by(table.c.unix_ns.desc(), table.c.occurrence_id).limit(limit)
    return [
        Occurrence(
            occurrence_id=row.occurrence_id,
            incident_id=row.incident_id,
            unix_ns=row.unix_ns,
            agent_id=row.agent_id,
            finding=load(Finding, row.finding),
            spike_id=row.spike_id,
            capture_id=row.capture_id,
        )
        for row in connection.execute(query)
    ]


def captures(connection: Connection, *, service: str, since_unix_ns: int, limit: int) -> list[CaptureDetail]:
    """Captures without summaries, the newest first."""
    table = schema.captures
    columns = [table.c.capture, table.c.diagnosis]
    query = _captures(columns).order_by(table.c.start_unix_ns.desc(), table.c.capture_id).limit(limit)
    query = _of_service(query, table, service).where(table.c.start_unix_ns >= since_unix_ns)
    return [_capture_detail(row, load(Capture, row.capture)) for row in connection.execute(query)]


def capture(connection: Connection, prefix: str) -> CaptureDetail:
    """One capture with its summary. Raises `NotFoundError` or `BadRequestError`."""
    table = schema.captures
    capture_id = _complete(connection, table.c.capture_id, prefix, "capture")
    query = _captures([table.c.capture, table.c.diagnosis, table.c.summary]).where(table.c.capture_id == capture_id)
    row = connection.execute(query).one()
    return _capture_detail(row, _whole_capture(row))


def spikes(
    connection: Connection, *, service: str, since_unix_ns: int, limit: int, unexplained_only: bool
) -> list[SpikeDetail]:
    """Spikes without evidence, the newest first."""
    table = schema.spikes
    query = _spikes([table.c.spike, table.c.diagnosis])
    query = query.order_by(table.c.start_unix_ns.desc(), table.c.spike_id).limit(limit)
    query = _of_service(query, table, service).where(table.c.start_unix_ns >= since_unix_ns)
    if unexplained_only:
        query = query.where(table.c.explained.is_(False))
    return [_spike_detail(row, row.spike) for row in connection.execute(query)]


def spike(connection: Connection, prefix: str) -> SpikeDetail:
    """One spike with its evidence. Raises `NotFoundError` or `BadRequestError`."""
    table = schema.spikes
    spike_id = _complete(connection, table.c.spike_id, prefix, "spike")
    row = connection.execute(_spikes([table.c.evidence, table.c.diagnosis]).where(table.c.spike_id == spike_id)).one()
    return _spike_detail(row, row.evidence)


def trace_of(connection: Connection, prefix: str) -> str | None:
    """The capture whose complete raw trace is meant by ``prefix``, None where there is none (yet)."""
    table = schema.raw_traces
    try:
        return _complete(connection, table.c.capture_id, prefix, "raw trace")
    except NotFoundError:
        return None


def _captures(columns: list[Column[Any]]) -> Select[Any]:
    table, traces = schema.captures, schema.raw_traces
    joined = table.outerjoin(schema.agents, schema.agents.c.agent_id == table.c.agent_id)
    joined = joined.outerjoin(traces, traces.c.capture_id == table.c.capture_id)
    return select(*columns, schema.agents.c.resource, traces.c.bytes.label("trace_bytes")).select_from(joined)


def _spikes(columns: list[Column[Any]]) -> Select[Any]:
    table = schema.spikes
    joined = table.outerjoin(schema.agents, schema.agents.c.agent_id == table.c.agent_id)
    return select(*columns, schema.agents.c.resource).select_from(joined)


def _capture_detail(row: Any, value: Capture) -> CaptureDetail:
    return CaptureDetail(
        capture=value,
        diagnosis=load(Diagnosis, row.diagnosis),
        resource=load(Resource, row.resource) if row.resource is not None else None,
        has_raw_trace=row.trace_bytes is not None,
    )


def _spike_detail(row: Any, blob: bytes) -> SpikeDetail:
    return SpikeDetail(
        spike=load(Spike, blob),
        diagnosis=load(Diagnosis, row.diagnosis),
        resource=load(Resource, row.resource) if row.resource is not None else None,
    )


def _whole_capture(row: Any) -> Capture:
    summary = load(TraceSummary, row.summary) if row.summary is not None else None
    return replace(load(Capture, row.capture), summary=summary)


def _resource(connection: Connection, agent_id: str) -> Resource | None:
    table = schema.agents
    blob = connection.execute(select(table.c.resource).where(table.c.agent_id == agent_id)).scalar_one_or_none()
    return load(Resource, blob) if blob is not None else None


def _of_service(query: Select[Any], table: Table, service: str) -> Select[Any]:
    return query.where(table.c.service == service) if service else query


def _complete(connection: Connection, column: Column[str], prefix: str, what: str) -> str:
    """The one id that begins with ``prefix``; an id that is equal to it wins over longer ones."""
    if not prefix:
        raise BadRequestError(f"The id of {'an' if what[0] in 'aeiou' else 'a'} {what} is needed.")
    query = select(column).where(column >= prefix, column < _after(prefix)).order_by(column).limit(2)
    found = list(connection.execute(query).scalars())
    if not found:
        raise NotFoundError(f"There is no {what} {prefix}.")
    if len(found) > 1 and found[0] != prefix:
        raise BadRequestError(f"{prefix} fits more than one {what}; give more of the id.")
    return found[0]


def _after(prefix: str) -> str:
    """A text that sorts behind every text that begins with ``prefix``."""
    return prefix + "\U0010ffff"
