"""From evidence to a diagnosis: run the rules, rank what they found, and say what may be said as a whole.

A finding is what would gain at least `NOTE_SHARE` of the affected request; for a spike it must also explain at least
`MIN_EXPLAINED` of the overrun. The rest are notes. Findings are ranked by what they would gain, then by what they cost.
"""

from __future__ import annotations

from dataclasses import replace

from midwatch.model.finding import Diagnosis, Finding, Kind, Verdict

from midwatch_server.diagnosis.build import NOTE_SHARE
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.rules import (
    AllocThrash,
    FirstCall,
    GcPause,
    HostGap,
    HotSync,
    KernelBound,
    LaunchBound,
    LockWait,
    Recompile,
    Rule,
    TransferBound,
)
from midwatch_server.diagnosis.verdict import spike_reason, window_caveats, window_verdict
from midwatch_server.diagnosis.words import ms, percent

RULES: tuple[Rule, ...] = (
    GcPause(),
    Recompile(),
    FirstCall(),
    LockWait(),
    HotSync(),
    HostGap(),
    LaunchBound(),
    KernelBound(),
    TransferBound(),
    AllocThrash(),
)

MIN_EXPLAINED = 0.25
"""A cause that covers less of a spike's overrun is a note."""

MOST = 0.5
"""A cause that covers less of it says so in its title."""


def diagnose(evidence: Evidence) -> Diagnosis:
    """Say what the evidence shows.

    Window and spike are judged each by itself and then ranked together, since a window shows what is always there and a
    spike what was different this once.
    """
    window = _judge(replace(evidence, spike=None)) if evidence.summary is not None else None
    spike = _judge(replace(evidence, summary=None)) if evidence.spike is not None else None
    if window is None or spike is None:
        return window or spike or Diagnosis(Verdict.INSUFFICIENT_DATA, reason="There is neither a window nor a spike.")
    findings = _rank(_without_twins((*spike.findings, *window.findings)))
    named = {_cause(finding) for finding in findings}
    notes = tuple(note for note in _rank((*spike.notes, *window.notes)) if _cause(note) not in named)
    verdict = Verdict.FINDINGS if findings else Verdict.INSUFFICIENT_DATA
    return Diagnosis(verdict, findings, notes, window.caveats, spike.reason)


def _judge(evidence: Evidence) -> Diagnosis:
    found = [finding for rule in RULES for finding in rule.find(evidence)]
    findings = _rank(tuple(f for f in found if _matters(f, spike=evidence.spike is not None)))
    notes = _rank(tuple(f for f in found if f not in findings and f.per_request_ms > 0))
    if evidence.account is not None:
        verdict = Verdict.FINDINGS if findings else Verdict.INSUFFICIENT_DATA
        return Diagnosis(verdict, tuple(map(_owning_up, findings)), notes, (), spike_reason(evidence.account, findings))
    verdict, reason = window_verdict(evidence, findings)
    return Diagnosis(verdict, _bounded(evidence, findings), notes, window_caveats(evidence), reason)


def _matters(finding: Finding, *, spike: bool) -> bool:
    if finding.share_of_request <= 0 or finding.recoverable_ms <= 0:
        return False
    request_ms = finding.per_request_ms / finding.share_of_request
    if finding.recoverable_ms < NOTE_SHARE * request_ms:
        return False
    return not spike or finding.share_of_overrun >= MIN_EXPLAINED


def _rank(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: (-finding.recoverable_ms, -finding.per_request_ms)))


def _cause(finding: Finding) -> tuple[Kind, str, str]:
    site = finding.site
    return finding.kind, site.file if site else "", site.function if site else ""


def _without_twins(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Keep the first finding of each cause: the spike's, which was seen in the act."""
    kept: dict[tuple[Kind, str, str], Finding] = {}
    for finding in findings:
        kept.setdefault(_cause(finding), finding)
    return tuple(kept.values())


def _owning_up(finding: Finding) -> Finding:
    """Let the title of a cause that covers less than half of the overrun say so."""
    if finding.share_of_overrun >= MOST:
        return finding
    return replace(finding, title=f"In part ({percent(finding.share_of_overrun)} of the overrun): {finding.title}")


def _bounded(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Say of later findings that their gains do not add up, where together they exceed the time without device work.

    Two counterfactuals may fill the same idle time of the device: without the wait, or with faster launches.
    """
    request = evidence.median_request()
    if request is None or not findings:
        return findings
    room = evidence.wall_ms() - min(request.device_busy_ms, evidence.wall_ms())
    bounded = [findings[0]]
    claimed = findings[0].recoverable_ms
    for finding in findings[1:]:
        claimed += finding.recoverable_ms
        everywhere = finding.requests_affected == findings[0].requests_affected
        if everywhere and finding.kind is not Kind.KERNEL_BOUND and claimed > room * 1.02:
            text = f"Shares idle time with the findings above: all of them together gain {ms(room)} at most"
            bounded.append(replace(finding, caveats=(*finding.caveats, text)))
        else:
            bounded.append(finding)
    return tuple(bounded)
