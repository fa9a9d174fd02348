"""From evidence to a diagnosis: run the rules, rank what they found, and say what may be said as a whole.

A finding of a window is what `worth` says, with a confidence of `MIN_CONFIDENCE`. One of a spike would gain at least
`NOTE_SHARE` of the request and explains at least `MIN_EXPLAINED` of the overrun. The rest are notes, as far as they are
worth a line, and without advice: what is no cause needs no remedy. No incident is opened for a note. A rule that raises
is named in a caveat, the others say what they found, and then nothing is called clean. Findings are ranked by what they
would gain an affected request (a `collective_wait`, whose gain one rank's trace cannot tell, by its cost), then by what
they cost it; notes by what they cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from midwatch.model.finding import Diagnosis, Finding, Kind, Verdict

from midwatch_server.diagnosis import failures
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.rules import (
    AllocThrash,
    CollectiveWait,
    DataStall,
    FirstCall,
    GcPause,
    GraphBreak,
    Held,
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
from midwatch_server.diagnosis.worth import NOTE_SHARE, at_stake_ms, is_worth_telling

RULES: tuple[Rule, ...] = (
    GcPause(),
    Recompile(),
    GraphBreak(),
    FirstCall(),
    DataStall(),
    CollectiveWait(),
    LockWait(),
    HotSync(),
    HostGap(),
    Held(),
    LaunchBound(),
    KernelBound(),
    TransferBound(),
    AllocThrash(),
)

MIN_EXPLAINED = 0.25
"""A cause that covers less of a spike's overrun is a note."""

MIN_CONFIDENCE = 0.3
"""What is less certain is never called the cause."""

MIN_NOTE_SHARE = 0.005
MAX_NOTES = 6
"""Notes cost at least this share of the request, and no more than so many are kept."""

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
    notes = _worth_a_line(note for note in (*spike.notes, *window.notes) if _cause(note) not in named)
    verdict = Verdict.FINDINGS if findings else Verdict.INSUFFICIENT_DATA
    return Diagnosis(verdict, findings, notes, tuple(dict.fromkeys((*window.caveats, *spike.caveats))), spike.reason)


def _judge(evidence: Evidence) -> Diagnosis:
    found, failed = _found(evidence)
    findings = _rank(tuple(f for f in found if _matters(f, evidence)))
    notes = _worth_a_line(finding for finding in found if finding not in findings)
    if evidence.account is not None:
        verdict = Verdict.FINDINGS if findings else Verdict.INSUFFICIENT_DATA
        reason = spike_reason(evidence.account, findings)
        return _admitting(Diagnosis(verdict, tuple(map(_owning_up, findings)), notes, (), reason), failed)
    verdict, reason = window_verdict(evidence, findings)
    diagnosis = Diagnosis(verdict, _bounded(evidence, findings), notes, window_caveats(evidence), reason)
    return _admitting(diagnosis, failed)


def _found(evidence: Evidence) -> tuple[list[Finding], list[tuple[str, str]]]:
    """Return what the rules find, and which of them failed, with what."""
    found: list[Finding] = []
    failed: list[tuple[str, str]] = []
    for rule in RULES:
        try:
            found.extend(rule.find(evidence))
        except Exception as error:  # noqa: PERF203 - one rule must not take the others down
            failed.append((rule.kind.value, failures.in_words(error)))
    return found, failed


def _admitting(diagnosis: Diagnosis, failed: list[tuple[str, str]]) -> Diagnosis:
    """Let a diagnosis say which rules failed; what they missed is not known, so nothing is clean."""
    if not failed:
        return diagnosis
    caveat = failures.caveat(failed)
    verdict = diagnosis.verdict if diagnosis.findings else Verdict.INSUFFICIENT_DATA
    reason = (diagnosis.findings and diagnosis.reason) or f"{caveat.text}."
    return replace(diagnosis, verdict=verdict, caveats=(*diagnosis.caveats, caveat), reason=reason)


def _matters(finding: Finding, evidence: Evidence) -> bool:
    if finding.confidence < MIN_CONFIDENCE or finding.share_of_request <= 0:
        return False
    if evidence.summary is not None:
        return is_worth_telling(finding, evidence)
    request_ms = finding.per_request_ms / finding.share_of_request
    return finding.recoverable_ms >= NOTE_SHARE * request_ms and finding.share_of_overrun >= MIN_EXPLAINED


def _worth_a_line(notes: Iterable[Finding]) -> tuple[Finding, ...]:
    worth = (replace(note, advice=()) for note in notes if note.share_of_request >= MIN_NOTE_SHARE)
    return tuple(sorted(worth, key=lambda note: -note.per_request_ms)[:MAX_NOTES])


def _rank(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: (-at_stake_ms(finding), -finding.per_request_ms)))


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

    Two counterfactuals may fill the same idle time of the device: without the wait, or with faster launches. Only what
    most requests have is added up, and device work itself is no idle time.
    """
    request = evidence.median_request()
    if evidence.summary is None or request is None:
        return findings
    room = evidence.wall_ms() * (1 - evidence.busy_share())
    bounded: list[Finding] = []
    claimed = 0.0
    for finding in findings:
        if finding.kind is Kind.KERNEL_BOUND or finding.requests_affected * 2 <= len(evidence.summary.requests):
            bounded.append(finding)
            continue
        shared = claimed > 0 and claimed + finding.recoverable_ms > room * 1.02
        text = f"Shares idle time with the findings above: all of them together gain {ms(room)} at most"
        bounded.append(replace(finding, caveats=(*finding.caveats, text)) if shared else finding)
        claimed += finding.recoverable_ms
    return tuple(bounded)
