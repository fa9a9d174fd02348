"""``gc_pause``: a garbage collection held the request.

A collection of CPython stops every thread of the process, so whichever thread ran it, the request waited. The request
does not need it, so what a replay without it gives is recoverable: all of it, but for what the device works meanwhile
and the host would wait for. The site is the line of an explicit ``gc.collect()``; the line at which an
automatic collection happened to start is chance and therefore no site.

Source: exact start and end from `gc.callbacks`, or ``gc.collect`` in the trace's Python lane or in samples. The
remedies are those of CPython's documentation of `gc.freeze` and of the reports that found generation-2 collections of
100 to 900 ms in inference servers. The one threshold: an automatic collection, of whatever generation, that takes less
than `SHORT_MS` is what the interpreter costs every program, and no cause.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.trace import GcFacts

from midwatch_server.diagnosis.account import Account, Claim
from midwatch_server.diagnosis.activity import Activity
from midwatch_server.diagnosis.build import gain_of, spike_finding, window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.phrases import explains, hidden, look_at, occurrences, seen_in
from midwatch_server.diagnosis.words import ms, place, plural

SHORT_MS = 2.0
CAUSE, RUNNING_COST = 0.95, 0.2
"""Confidence that it is a cause."""

MEASURE = "The slowest requests (p99, maximum), and the GC time of its requests"

EXPLICIT = Advice(
    "Take this gc.collect() off the request path: run it between requests, or not at all",
    "It walks every tracked object each time, however little there is to free",
    MEASURE,
)
AUTOMATIC = Advice(
    "Call gc.collect() and then gc.freeze() once, when the models are loaded",
    "Frozen objects are no longer walked; a generation-2 collection then costs only what requests have left behind",
    MEASURE,
)
YOUNG = Advice(
    "Raise the first threshold, for example gc.set_threshold(50_000, 20, 100)",
    "Young collections then run less often; memory grows by the objects of a few requests",
    MEASURE,
)


class GcPause:
    """Collections that held requests."""

    kind = Kind.GC_PAUSE

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield one finding a generation and site."""
        if evidence.summary is not None:
            for facts in _grouped(evidence.summary.gc):
                yield _from_window(evidence, facts)
        if evidence.account is not None:
            for claim in evidence.account.collections:
                yield _from_spike(evidence.account, claim)
            for claim in evidence.account.places:
                if claim.seen_as is Activity.GC:
                    yield _from_samples(evidence.account, claim)


def _grouped(found: Iterable[GcFacts]) -> Iterable[GcFacts]:
    """Put the automatic collections of one generation together: where they started is chance.

    The longest of all comes first in the moments, since each group's own longest does.
    """
    automatic: dict[int, list[GcFacts]] = defaultdict(list)
    for facts in found:
        if facts.explicit:
            yield facts
        else:
            automatic[facts.generation].append(facts)
    for generation, unsorted in automatic.items():
        group = sorted(unsorted, key=lambda facts: -facts.max_ms)
        total_ms = sum(facts.total_ms for facts in group)
        affected = sum(facts.requests_affected for facts in group)
        gains = [(f.recoverable_ms, f.requests_affected) for f in group if f.recoverable_ms is not None]
        yield GcFacts(
            generation=generation,
            count=sum(facts.count for facts in group),
            total_ms=total_ms,
            max_ms=group[0].max_ms,
            requests_affected=affected,
            per_request_ms=total_ms / max(affected, 1),
            collected=sum(facts.collected for facts in group),
            starts_ms=tuple(
                start
                for turn in itertools.zip_longest(*(facts.starts_ms for facts in group))
                for start in turn
                if start is not None
            ),
            recoverable_ms=sum(gain * n for gain, n in gains) / max(affected, 1) if len(gains) == len(group) else None,
        )


def _advice(generation: int, *, explicit: bool) -> tuple[Advice, ...]:
    return (EXPLICIT,) if explicit else (AUTOMATIC,) if generation >= 2 else (YOUNG,)


def _from_window(evidence: Evidence, facts: GcFacts) -> Finding:
    cost, gain = facts.per_request_ms, gain_of(facts.per_request_ms, facts.recoverable_ms)
    route = evidence.route_of(facts.starts_ms, facts.count)
    walls = [request.wall_ms for request in evidence.summary.requests if request.gc_ms > 0] if evidence.summary else []
    some = evidence.summary is not None and facts.requests_affected < evidence.summary.window.requests
    wall = evidence.untraced_wall(sum(walls) / len(walls)) if some and walls else evidence.wall_ms()
    site = facts.site if facts.explicit else None
    cause = f"`gc.collect()` in {place(site)}" if site else f"A garbage collection (generation {facts.generation})"
    return window_finding(
        Kind.GC_PAUSE,
        f"{cause} holds the request for {ms(cost)} {evidence.per(facts.requests_affected, route=route)}",
        site=site,
        cost_ms=cost,
        gain_ms=gain,
        wall_ms=max(wall, cost),
        occurrences=facts.count / max(facts.requests_affected, 1),
        affected=facts.requests_affected,
        confidence=CAUSE if facts.explicit or facts.max_ms >= SHORT_MS else RUNNING_COST,
        evidence=(
            f"Generation {facts.generation}: {occurrences(facts.count, 'collection', facts.requests_affected)}",
            f"{ms(facts.total_ms)} traced in all, the longest {ms(facts.max_ms)}{look_at(evidence, facts.starts_ms)}",
            *hidden(cost, gain),
        ),
        advice=_advice(facts.generation, explicit=facts.explicit),
        route=route,
    )


def _from_spike(account: Account, claim: Claim) -> Finding:
    pauses = claim.pauses
    generation = pauses[0].generation
    explicit = pauses[0].explicit
    objects = max(pause.objects for pause in pauses)
    freed = sum(pause.collected for pause in pauses)
    if claim.site is not None:
        title = f"`gc.collect()` in {place(claim.site)} held the request for {ms(claim.ms)}"
    else:
        tracked = f" over {objects:,} objects" if objects else ""
        title = f"A garbage collection (generation {generation}{tracked}) held the request for {ms(claim.ms)}"
    return spike_finding(
        Kind.GC_PAUSE,
        title,
        account,
        claim,
        occurrences=float(len(pauses)),
        confidence=0.95,
        evidence=(
            f"{plural(len(pauses), 'collection')} of generation {generation}, {plural(freed, 'object')} freed",
            explains(account, claim),
        ),
        advice=_advice(generation, explicit=explicit),
    )


def _from_samples(account: Account, claim: Claim) -> Finding:
    at = f" in {place(claim.site)}" if claim.site else ""
    return spike_finding(
        Kind.GC_PAUSE,
        f"`gc.collect()`{at} held the request for {ms(claim.ms)}",
        account,
        claim,
        occurrences=1.0,
        confidence=0.8,
        evidence=(seen_in(claim), explains(account, claim)),
        advice=(EXPLICIT,),
    )
