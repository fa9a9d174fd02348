"""What counts as one sighting of an incident.

A spike is one sighting of each trouble found in it. A window that a spike ordered looks at the same trouble again: it
joins the sighting of that spike and counts no further. A window on demand or by routine is a sighting of its own.
Two findings of one diagnosis with one fingerprint (two lines of one function) are one sighting, the worse of them.
Notes, which would gain next to nothing, are no sightings.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis, Finding
from midwatch.model.incident import Occurrence
from midwatch.model.resource import Resource
from midwatch.model.spike import Spike

from midwatch_server.incidents.fingerprint import fingerprint, incident_id


@dataclass(frozen=True, slots=True)
class Sighting:
    """One occurrence on its way to its group; ``key`` is what is counted once."""

    fingerprint: str
    key: str
    service: str
    service_version: str
    route: str
    occurrence: Occurrence


def of_spike(spike: Spike, diagnosis: Diagnosis, resource: Resource) -> tuple[Sighting, ...]:
    """Return the sightings in a spike."""
    return _sightings(
        diagnosis,
        resource,
        route=spike.request.route,
        key=f"spike:{spike.spike_id}",
        unix_ns=spike.request.start_unix_ns,
        spike_id=spike.spike_id,
        capture_id="",
    )


def of_capture(capture: Capture, diagnosis: Diagnosis, resource: Resource) -> tuple[Sighting, ...]:
    """Return the sightings in a window."""
    return _sightings(
        diagnosis,
        resource,
        route=capture.route,
        key=f"spike:{capture.spike_id}" if capture.spike_id else f"capture:{capture.capture_id}",
        unix_ns=capture.start_unix_ns,
        spike_id=capture.spike_id,
        capture_id=capture.capture_id,
    )


def better(old: Finding, new: Finding) -> Finding:
    """Return which of two findings of one sighting says more: first by an exact line, then by confidence."""
    return new if _weight(new) > _weight(old) else old


def _weight(finding: Finding) -> tuple[bool, float]:
    return finding.site is not None and finding.site.exact, finding.confidence


def _sightings(
    diagnosis: Diagnosis, resource: Resource, *, route: str, key: str, unix_ns: int, spike_id: str, capture_id: str
) -> tuple[Sighting, ...]:
    found: dict[str, Sighting] = {}
    for finding in diagnosis.findings:
        where = finding.route or route
        mark = fingerprint(resource.service, where, finding)
        if mark in found:
            continue
        group = incident_id(mark)
        occurrence = Occurrence(
            occurrence_id=hashlib.sha256(f"{group}\0{key}".encode("utf-8", "replace")).hexdigest()[:16],
            incident_id=group,
            unix_ns=unix_ns,
            agent_id=resource.agent_id,
            finding=finding,
            # What the window saw of another route is not what made this spike slow.
            spike_id=spike_id if where == route else "",
            capture_id=capture_id,
        )
        found[mark] = Sighting(mark, key, resource.service, resource.service_version, where, occurrence)
    return tuple(found.values())
