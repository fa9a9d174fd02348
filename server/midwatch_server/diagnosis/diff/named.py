"""Findings of both sides: which are gone, which are new, which are still there."""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Finding

from midwatch_server.diagnosis.diff.values import Named
from midwatch_server.diagnosis.report import Report


def named(a: Report, b: Report) -> tuple[Named, ...]:
    """Return the findings of both, those of A first. A finding of one side may be a note on the other."""
    kept: list[Named] = []
    left = [*b.diagnosis.findings, *b.diagnosis.notes]
    for finding in a.diagnosis.findings:
        twin = _twin(finding, left)
        if twin is not None:
            left.remove(twin)
        kept.append(Named("gone" if twin is None else "kept", finding, twin))
    for finding in b.diagnosis.findings:
        if finding in left:
            twin = _twin(finding, a.diagnosis.notes)
            kept.append(Named("new" if twin is None else "kept", twin, finding))
    return tuple(kept)


def _twin(finding: Finding, others: Iterable[Finding]) -> Finding | None:
    """Return the other side's finding of the same kind at the same function, or at no known place on one side."""
    alike = [other for other in others if other.kind is finding.kind]
    same = [other for other in alike if _place(other) == _place(finding)]
    unplaced = [other for other in alike if not _place(other)[1] or not _place(finding)[1]]
    return next(iter((*same, *unplaced)), None)


def _place(finding: Finding) -> tuple[str, str]:
    site = finding.site
    return (site.file, site.function) if site is not None else ("", "")
