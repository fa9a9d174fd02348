"""Incidents: what happens again and again, grouped by a versioned fingerprint."""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis, Finding, Kind
from midwatch.model.resource import Resource
from midwatch.model.spike import Spike


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time that an incident was seen: the finding, and the spike or capture that showed it."""

    occurrence_id: str
    incident_id: str
    unix_ns: int
    agent_id: str
    finding: Finding
    spike_id: str = ""
    capture_id: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """A group of occurrences with one fingerprint: ``v1:`` + a hash of service, route, kind, module and function."""

    incident_id: str
    fingerprint: str
    service: str
    route: str
    kind: Kind
    title: str
    count: int
    first_seen_unix_ns: int
    last_seen_unix_ns: int
    service_version: str = ""
    latest: Finding | None = None


@dataclass(frozen=True, slots=True)
class IncidentDetail:
    """All that `midwatch show` needs of one incident: its group, newest occurrences and their evidence."""

    incident: Incident
    occurrences: tuple[Occurrence, ...] = ()
    spike: Spike | None = None
    capture: Capture | None = None
    resource: Resource | None = None


@dataclass(frozen=True, slots=True)
class CaptureDetail:
    """All that `midwatch show` needs of one capture."""

    capture: Capture
    diagnosis: Diagnosis
    resource: Resource | None = None
    has_raw_trace: bool = False


@dataclass(frozen=True, slots=True)
class SpikeDetail:
    """All that `midwatch show` needs of one spike; in lists the spike comes without its evidence."""

    spike: Spike
    diagnosis: Diagnosis
    resource: Resource | None = None
