"""The JSON document of a comparison: ``midwatch.diff.v1``. Its keys are a contract, written down in docs/diff.md."""

from __future__ import annotations

from typing import Any

from midwatch.model.finding import Finding
from midwatch.model.plain import to_plain

from midwatch_server.diagnosis.diff.values import Change, Diff, Figure, Part, Sample

SCHEMA = "midwatch.diff.v1"


def diff_document(diff: Diff) -> dict[str, Any]:
    """Return the comparison as dictionaries, lists and scalars. What is not known is null, never left out."""
    return {
        "schema": SCHEMA,
        "answer": list(diff.answer),
        "a": to_plain(diff.a),
        "b": to_plain(diff.b),
        "noun": diff.noun,
        "comparable": to_plain(diff.comparability),
        "changed": to_plain(diff.changed),
        "request": _figure(diff.wall),
        "slowest": _figure(diff.slowest),
        "figures": [_figure(figure) for figure in diff.figures],
        "unchanged": [figure.key for figure in (diff.wall, *diff.figures) if figure.status == "same"],
        "changes": [_change(change) for change in diff.changes],
        "accounts_for": [
            {"kind": share.change.kind, "what": share.change.label, "ms": _round(share.ms)} for share in diff.shares
        ],
        "rest_ms": _round(diff.rest_ms),
        "findings": [
            {"status": named.status, "a": _finding(named.a), "b": _finding(named.b)} for named in diff.findings
        ],
    }


def _figure(figure: Figure) -> dict[str, Any]:
    known = figure.a is not None and figure.b is not None
    return {
        "key": figure.key,
        "label": figure.label,
        "unit": figure.unit,
        "a": _sample(figure.a),
        "b": _sample(figure.b),
        "delta": _round(figure.delta) if known else None,
        "status": figure.status,
    }


def _sample(sample: Sample | None) -> dict[str, Any] | None:
    if sample is None:
        return None
    return {
        "median": _round(sample.median),
        "low": _round(sample.low),
        "high": _round(sample.high),
        "requests": sample.count,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "what": change.label,
        "status": change.status,
        "on_device": change.on_device,
        "site": to_plain(change.site),
        "a": _part(change.a),
        "b": _part(change.b),
        "delta_ms": _round(change.delta_ms),
        "effect_ms": _round(change.effect_ms),
    }


def _part(part: Part | None) -> dict[str, Any] | None:
    if part is None:
        return None
    return {
        "ms": _round(part.ms),
        "count": _round(part.count),
        "share_of_requests": _round(part.share),
        "gain_ms": _round(part.gain_ms),
        "detail": part.detail,
    }


def _finding(finding: Finding | None) -> dict[str, Any] | None:
    if finding is None:
        return None
    return {
        "kind": finding.kind.value,
        "title": finding.title,
        "site": to_plain(finding.site),
        "per_request_ms": _round(finding.per_request_ms),
        "recoverable_ms": _round(finding.recoverable_ms),
    }


def _round(value: float) -> float:
    return round(value, 4)
