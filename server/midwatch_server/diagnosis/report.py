"""The one JSON document that people and programs get: ``midwatch.report.v1``.

Its keys are a contract, written down in ``docs/report.md``: keys are added, never renamed or removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis
from midwatch.model.incident import Incident, Occurrence
from midwatch.model.plain import to_plain
from midwatch.model.requests import Workload
from midwatch.model.resource import Resource
from midwatch.model.spike import Spike
from midwatch.model.trace import TraceSummary

from midwatch_server.diagnosis.account import Account, Claim, account

SCHEMA = "midwatch.report.v1"


@dataclass(frozen=True, slots=True)
class Report:
    """A diagnosis with all that is known around it; every field but the diagnosis may be missing."""

    diagnosis: Diagnosis
    summary: TraceSummary | None = None
    file: str = ""
    capture: Capture | None = None
    spike: Spike | None = None
    resource: Resource | None = None
    incident: Incident | None = None
    occurrences: tuple[Occurrence, ...] = ()
    has_raw_trace: bool = False

    @property
    def workload(self) -> Workload:
        """What was worked on, as far as it was noted."""
        if self.capture is not None and self.capture.workload != Workload():
            return self.capture.workload
        if self.spike is not None:
            return self.spike.request.workload
        return self.summary.workload if self.summary is not None else Workload()

    @property
    def account(self) -> Account | None:
        """Where the spike's time went; None without a spike."""
        return account(self.spike, self.spike.baseline) if self.spike is not None else None


def documents(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the document of one report, or of several under ``reports``."""
    if len(reports) == 1:
        return document(reports[0])
    return {"schema": SCHEMA, "reports": [document(report) for report in reports]}


def document(report: Report) -> dict[str, Any]:
    """Return one report as dictionaries, lists and scalars. What is not known is null, never left out."""
    return {
        "schema": SCHEMA,
        "file": report.file or None,
        "incident": _without(to_plain(report.incident), "latest") if report.incident else None,
        "occurrences": [_occurrence(occurrence) for occurrence in report.occurrences],
        "service": to_plain(report.resource),
        "capture": _capture(report),
        "spike": _spike(report),
        "workload": to_plain(report.workload),
        "verdict": report.diagnosis.verdict.value,
        "reason": report.diagnosis.reason,
        "findings": _rounded(to_plain(report.diagnosis.findings)),
        "notes": _rounded(to_plain(report.diagnosis.notes)),
        "window": _window(report),
        "device": _device(report.summary),
        "timeline": _rounded(to_plain(report.summary.timeline)) if report.summary else None,
    }


def _window(report: Report) -> dict[str, Any] | None:
    summary = report.summary
    if summary is None:
        return None
    window = _without(_rounded(to_plain(summary.window)), "caveats")
    return {
        **window,
        "request_p50_ms": round(summary.request_p50_ms, 4),
        "events": summary.events,
        "torch": summary.torch,
        "cuda": summary.cuda,
        "time": _rounded(to_plain(summary.time)),
        "caveats": to_plain(report.diagnosis.caveats),
    }


def _device(summary: TraceSummary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    device = summary.device
    whole = device.busy_ms + device.idle_ms
    return {**_rounded(to_plain(device)), "busy_share": round(device.busy_ms / whole, 4) if whole else None}


def _capture(report: Report) -> dict[str, Any] | None:
    if report.capture is None:
        return None
    plain = _without(_rounded(to_plain(report.capture)), "summary", "workload")
    return {**plain, "has_raw_trace": report.has_raw_trace}


def _spike(report: Report) -> dict[str, Any] | None:
    spike, spent = report.spike, report.account
    if spike is None or spent is None:
        return None
    return {
        "spike_id": spike.spike_id,
        "rule": spike.rule,
        "deadline_ms": round(spike.deadline_ms, 4),
        "duration_ms": round(spent.duration_ms, 4),
        "usual_ms": round(spent.usual_ms, 4),
        "overrun_ms": round(spent.overrun_ms, 4),
        "watched_ms": round(spent.watched_ms, 4),
        "samples": len(spike.samples),
        "has_device": spike.has_device,
        "capture_id": spike.capture_id,
        "request": _without(to_plain(spike.request), "workload"),
        "baseline": _rounded(to_plain(spike.baseline)),
        "time": [_claim(claim) for claim in spent.claims],
        "units": [_without(to_plain(unit), "workload") for unit in spike.units],
        "gpu": to_plain(spike.gpu),
        "host": to_plain(spike.host),
    }


def _claim(claim: Claim) -> dict[str, Any]:
    witnesses = (("gc", claim.pauses), ("compile", claim.compiles), ("lock", claim.locks))
    witness = next((what for what, seen in witnesses if seen), "unknown")
    return {
        "what": claim.seen_as.value if claim.seen_as else witness,
        "ms": round(claim.ms, 4),
        "share_of_overrun": round(claim.share, 4),
        "thread": claim.thread_name,
        "role": claim.role,
        "site": to_plain(claim.site),
    }


def _occurrence(occurrence: Occurrence) -> dict[str, Any]:
    return _without(_rounded(to_plain(occurrence)), "finding") | {
        "title": occurrence.finding.title,
        "per_request_ms": round(occurrence.finding.per_request_ms, 4),
        "site": to_plain(occurrence.finding.site),
    }


def _without(plain: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in plain.items() if key not in keys}


def _rounded(plain: Any) -> Any:
    """Round to 0.1 microseconds, so that the document is readable and does not pretend."""
    if isinstance(plain, float):
        return round(plain, 4)
    if isinstance(plain, dict):
        return {key: _rounded(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_rounded(item) for item in plain]
    return plain
