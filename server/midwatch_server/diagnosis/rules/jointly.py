"""Waits that only matter together: without one of them the next one takes its place, without all the host runs ahead.

They are a finding of their own where together they gain at least `floor_ms` more than those that already are findings
each by itself. Of the waits of one cause, or of all, the smaller change is told where it gives `ENOUGH` of the gain.

There is no source for `ENOUGH`; it only says which of two true sentences is told: four fifths of the gain for a change
of one kind are better advice than all of it for changes of several kinds.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.trace import JointWaitFacts, WaitFacts

from midwatch_server.diagnosis.build import window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.phrases import look_at
from midwatch_server.diagnosis.words import ms, place, plural
from midwatch_server.diagnosis.worth import floor_ms

ENOUGH = 0.8
LISTED = 6
"""Sites named in the evidence, those that wait longest first."""

NOUNS = {
    "item": "`.item()`-like read-back",
    "d2h": "blocking device-to-host copy",
    "h2d_pageable": "blocking pageable host-to-device copy",
    "stream_sync": "stream synchronization",
    "event_sync": "event synchronization",
    "device_sync": "device synchronization",
    "free": "cudaFree call",
}

ADVICE = Advice(
    "Take all of them out of the request: keep what they read on the device and read it once, after the last launch; "
    "pin what is copied, and copy with non_blocking=True",
    "One wait less gains nothing while the next one stops the host again; without any it runs ahead of the device",
    "The median latency, and the waits between the first and the last launch of a new window: none should be left",
)
NEEDED = "Holds as far as nothing that is launched afterwards depends on the values that were read"


def claimed_by_waits(evidence: Evidence) -> float:
    """Return what the waits that are findings would gain, in untraced milliseconds: together where that is told."""
    alone = _alone(evidence)
    joint = told_jointly(evidence)
    return max(alone, evidence.untraced(joint.recoverable_ms)) if joint is not None else alone


def told_jointly(evidence: Evidence) -> JointWaitFacts | None:
    """Return the waits that are told together, None where each one speaks for itself."""
    if evidence.summary is None or evidence.device_lane_missing or not evidence.summary.joint_waits:
        return None
    every = evidence.summary.joint_waits
    most = max(fact.recoverable_ms for fact in every)
    chosen = min((fact for fact in every if fact.recoverable_ms >= ENOUGH * most), key=lambda fact: fact.count)
    more = evidence.untraced(chosen.recoverable_ms) - _alone(evidence)
    return chosen if more >= floor_ms(evidence.wall_ms()) else None


def joint_finding(evidence: Evidence, joint: JointWaitFacts) -> Finding:
    """Build the finding of waits that are told together, at the site that waits longest."""
    waits = _members(evidence, joint)
    cost, gain = joint.per_request_ms, evidence.untraced(joint.recoverable_ms)
    wall = evidence.wall_ms(joint.starts_ms, joint.requests_affected)
    times = joint.count / max(joint.requests_affected, 1)
    sites = [wait.site for wait in waits if wait.site is not None]
    route = evidence.route_of(joint.starts_ms, joint.count)
    return window_finding(
        Kind.HOT_SYNC,
        f"{_counted(joint, waits)} make the host wait {ms(cost)} "
        f"{evidence.per(joint.requests_affected, route=route)} while more device work follows: "
        f"without all of them it takes {ms(gain)} less",
        site=sites[0] if sites else None,
        cost_ms=cost,
        gain_ms=gain,
        wall_ms=wall,
        occurrences=times,
        affected=joint.requests_affected,
        confidence=0.8 if sites else 0.7,
        evidence=_evidence(evidence, joint, waits, gain=gain, wall=wall),
        advice=(ADVICE,),
        caveats=(NEEDED,),
        route=route,
    )


def _alone(evidence: Evidence) -> float:
    waits = evidence.summary.waits if evidence.summary else ()
    gains = (evidence.untraced(wait.recoverable_ms) for wait in waits if wait.count > wait.handover)
    return sum(gain for gain in gains if gain >= floor_ms(evidence.wall_ms()))


def _members(evidence: Evidence, joint: JointWaitFacts) -> list[WaitFacts]:
    waits = evidence.summary.waits if evidence.summary else ()
    return [w for w in waits if inside(w) > 0 and joint.cause in {"", w.cause}]


def inside(wait: WaitFacts) -> int:
    """Return how many of the waits stand between launches of their request."""
    return wait.count - wait.handover - wait.leading


def _counted(joint: JointWaitFacts, waits: list[WaitFacts]) -> str:
    """Say how many of which kind: ``5 scalar read-backs and 5 blocking copies to the host``."""
    causes: dict[str, int] = {}
    for wait in waits:
        causes[wait.cause] = causes.get(wait.cause, 0) + inside(wait)
    parts = [
        plural(round(count / joint.requests_affected), NOUNS.get(cause, "wait"))
        for cause, count in sorted(causes.items(), key=lambda item: -item[1])
        if 2 * count >= joint.requests_affected
    ]
    return " and ".join(parts) or plural(joint.count, "wait")


def _evidence(
    evidence: Evidence, joint: JointWaitFacts, waits: list[WaitFacts], *, gain: float, wall: float
) -> Iterable[str]:
    yield (
        f"Replayed without any of them, the {evidence.noun} takes {ms(wall - gain)} instead of {ms(wall)}; "
        f"removed one at a time, the next one takes its place{look_at(evidence, joint.starts_ms)}"
    )
    idle = evidence.untraced(joint.idle_after_ms)
    yield f"From the first of them to the end of the {evidence.noun} the device idles for {ms(idle)}"
    for wait in waits[:LISTED]:
        alone = evidence.untraced(wait.recoverable_ms)
        where = f" in {place(wait.site)}" if wait.site else ""
        yield (
            f"{plural(inside(wait), NOUNS.get(wait.cause, 'wait'))}{where} inside {wait.api}, "
            f"{ms(wait.per_request_ms)} each {evidence.noun}; gains {ms(alone)} alone"
        )
