"""Findings from their parts, so that shares and bounds are computed in one place."""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, GraphCandidate, Kind
from midwatch.model.site import Site

from midwatch_server.diagnosis.account import Account, Claim


def window_finding(
    kind: Kind,
    title: str,
    *,
    site: Site | None,
    cost_ms: float,
    gain_ms: float,
    wall_ms: float,
    occurrences: float,
    affected: int,
    confidence: float,
    evidence: Iterable[str],
    advice: tuple[Advice, ...],
    caveats: Iterable[str] = (),
    graph_candidate: GraphCandidate | None = None,
    related_site: Site | None = None,
    route: str = "",
) -> Finding:
    """Build a finding of a window; all times are untraced milliseconds of one affected request."""
    return Finding(
        kind=kind,
        title=title,
        site=site,
        per_request_ms=cost_ms,
        share_of_request=min(cost_ms / wall_ms, 1.0) if wall_ms > 0 else 0.0,
        recoverable_ms=max(min(gain_ms, wall_ms), 0.0),
        occurrences_per_request=occurrences,
        requests_affected=affected,
        confidence=confidence,
        evidence=tuple(evidence),
        advice=advice,
        caveats=tuple(caveats),
        graph_candidate=graph_candidate,
        related_site=related_site,
        route=route,
    )


def gain_of(cost_ms: float, replayed_ms: float | None) -> float:
    """Return what the replay without a cause gives, no more than it costs; all of that where there is no replay."""
    return cost_ms if replayed_ms is None else min(cost_ms, replayed_ms)


def spike_finding(
    kind: Kind,
    title: str,
    account: Account,
    claim: Claim,
    *,
    occurrences: float,
    confidence: float,
    evidence: Iterable[str],
    advice: tuple[Advice, ...],
    caveats: Iterable[str] = (),
    related_site: Site | None = None,
) -> Finding:
    """Build a finding of one spike: what is gained is what the request overran by, at most."""
    return Finding(
        kind=kind,
        title=title,
        site=claim.site,
        per_request_ms=claim.ms,
        share_of_request=min(claim.ms / account.duration_ms, 1.0) if account.duration_ms > 0 else 0.0,
        recoverable_ms=min(claim.ms, account.overrun_ms),
        occurrences_per_request=occurrences,
        requests_affected=1,
        confidence=confidence,
        evidence=tuple(evidence),
        advice=advice,
        caveats=tuple(caveats),
        related_site=related_site,
        share_of_overrun=claim.share,
    )
