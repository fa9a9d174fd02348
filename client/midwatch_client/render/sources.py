"""Reports from what the collector returns."""

from __future__ import annotations

from midwatch.model.finding import Diagnosis, Verdict
from midwatch.model.incident import CaptureDetail, IncidentDetail, SpikeDetail
from midwatch_server.diagnosis import Report


def of_capture(detail: CaptureDetail) -> Report:
    """Return the report of one capture."""
    return Report(
        detail.diagnosis,
        summary=detail.capture.summary,
        capture=detail.capture,
        resource=detail.resource,
        has_raw_trace=detail.has_raw_trace,
    )


def of_spike(detail: SpikeDetail) -> Report:
    """Return the report of one spike."""
    return Report(detail.diagnosis, spike=detail.spike, resource=detail.resource)


def of_incident(detail: IncidentDetail) -> Report:
    """Return the report of one incident: its latest finding, with the evidence of the newest occurrence."""
    latest = detail.incident.latest or (detail.occurrences[0].finding if detail.occurrences else None)
    diagnosis = (
        Diagnosis(Verdict.FINDINGS, (latest,))
        if latest is not None
        else Diagnosis(Verdict.INSUFFICIENT_DATA, reason="The collector holds no finding of this incident any more.")
    )
    return Report(
        diagnosis,
        summary=detail.capture.summary if detail.capture else None,
        capture=detail.capture,
        spike=detail.spike,
        resource=detail.resource,
        incident=detail.incident,
        occurrences=detail.occurrences,
    )
