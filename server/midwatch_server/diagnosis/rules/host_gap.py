"""``host_gap``: the model's work stands still while the host does other work in the request.

From a window: a gap of `GapFacts` in which the host ran Python, was blocked, or ran operators while the device idled.
What no witness names is listed with a confidence too low for a cause, and not at all where samples tell where such
requests spend their time. So is Python that stood still once, in one request of several, for less than `TURN_MS`: it
stands where it does by chance, if it waited for a processor. Gaps that collections, locks, allocations, compilations
or dispatch explain belong to their own rules. Where the service uses no device, a gap is a stretch without operators,
and nothing is said of a device; there Python or blocking calls may also lie in pieces too short for a gap, and then
what `LEAST_SAMPLES` stack samples found in one function counts. Without any record of the host there is no gap to
speak of.

Gaps before the first launch that would each be a finding are one: the input was not ready. Before the first launch of
a lone profiler step they are a note: that step's edge is the recording's (see `Evidence.lone_step`). Where nothing but
launches was recorded of the threads that launch, no gap is put down to them (`Evidence.launches_unseen`).

From a spike: samples of the request's thread, or of its unit's thread, that show Python or a blocking call. Time inside
operators is the model's own work and no gap.

Source: the replay for what a gap costs; the list of blocking calls is `activity.BLOCKING`. Two thresholds: of eight
samples the standard error is a third of what they estimate; and on eight cores and more Linux lets each thread that
could run wait for 24 ms until all have had their turn (6 ms times 1 + log2 of the cores in CFS; slices of 3 ms since).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.site import Site
from midwatch.model.trace import GapFacts, TimeFacts, TraceSummary

from midwatch_server.diagnosis.account import Account, Claim
from midwatch_server.diagnosis.activity import Activity
from midwatch_server.diagnosis.build import spike_finding, window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.phrases import explains, look_at, occurrences, seen_in, thread_of
from midwatch_server.diagnosis.words import call, ms, percent, place, plural
from midwatch_server.diagnosis.worth import is_worth_telling

MEASURE = "The median latency, and the gap at this line in a new window"

PYTHON = (
    Advice(
        "Move this work off the request path, precompute it, or hand it to vectorised code",
        "While the interpreter runs it, the model's next stage is not started",
        MEASURE,
    ),
    Advice(
        "If it must stay, run it beside the model: start the next stage first, or prepare the next request in another "
        "process",
        "What the model does not wait for costs the request nothing",
        MEASURE,
    ),
)
BLOCKED = (
    Advice(
        "Take the blocking call off the request path: hand it to a queue that a thread of its own drains",
        "The request waits for a file, a socket or a timer; what its answer does not need can follow after it",
        MEASURE,
    ),
)
OPERATORS = (
    Advice(
        "If this operator computes on the CPU, move its tensors to the device, or run it before the first launch",
        "The device idles while the host computes",
        MEASURE,
    ),
)
UNKNOWN = (
    Advice(
        "Take a deep window with the agent attached (midwatch profile SERVICE --deep)",
        "This trace has no record of what the host did here; stack samples name the line",
        "Whether the gap has a line then",
    ),
)


NAMELESS = UNPROVEN = 0.2
"""Too low for a cause: see `judge.MIN_CONFIDENCE`."""
ONCE = "one profiler step does not show whether each request does this, or only the script around it"
ESTIMATED = 0.6
TURN_MS = 24.0
LEAST_SAMPLES = 8


class HostGap:
    """Host work that leaves the model standing still."""

    kind = Kind.HOST_GAP

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield one finding a place."""
        if evidence.summary is not None and not evidence.host_lane_missing:
            scattered = _scattered(evidence, evidence.summary)
            instead = {_place(facts.what, facts.site) for facts in scattered}
            seen = any(facts.samples for facts in evidence.summary.time)
            leading: list[Finding] = []
            found: list[Finding] = []
            for gap in evidence.summary.gaps:
                if gap.device and (evidence.device_lane_missing or evidence.launches_unseen):
                    continue
                if _place(gap.host, gap.site) in instead:
                    continue
                nameless = gap.host == "unknown" or not (gap.site or gap.callee)
                if nameless and seen:
                    continue
                if gap.host in ("python", "blocked", "unknown") or (gap.host == "ops" and gap.device):
                    (leading if gap.leading else found).append(_from_window(evidence, gap))
            for finding in _together(evidence, leading):
                yield _unproven(finding) if evidence.lone_step else finding
            yield from found
            for facts in scattered:
                yield _from_samples(evidence, facts)
        if evidence.account is not None:
            for claim in evidence.account.places:
                if claim.seen_as in (Activity.PYTHON, Activity.BLOCKED):
                    yield _from_spike(evidence.account, claim)


def _place(host: str, site: Site | None) -> tuple[str, str, str]:
    return host, site.file if site else "", site.function if site else ""


def _scattered(evidence: Evidence, summary: TraceSummary) -> list[TimeFacts]:
    """Return the places where the usual requests spend more time than the gaps there explain.

    Many of them do so: what samples found in a few requests is a gap of theirs, or chance.
    """
    count = evidence.main_count
    in_gaps: dict[tuple[str, str, str], float] = defaultdict(float)
    for gap in summary.gaps:
        in_gaps[_place(gap.host, gap.site)] += gap.per_request_ms * gap.requests_affected
    return [
        facts
        for facts in summary.time
        if facts.what in ("python", "blocked")
        and facts.site is not None
        and facts.samples >= LEAST_SAMPLES
        and facts.requests * 2 >= min(facts.samples, count)
        and in_gaps[_place(facts.what, facts.site)] * 2 < facts.per_request_ms * count
    ]


def _from_samples(evidence: Evidence, facts: TimeFacts) -> Finding:
    cost = facts.per_request_ms
    affected = evidence.main_count
    route = evidence.main[0].route if len(evidence.routes) > 1 and evidence.main else ""
    at = f"{place(facts.site)}" if facts.site else ""
    subject = f"Python in {at} runs" if facts.what == "python" else f"A blocking call in {at} holds the request"
    of = f" of {route}" if route else ""
    return window_finding(
        Kind.HOST_GAP,
        f"{subject} for about {ms(cost)} in a request{of}, in pieces between operators",
        site=facts.site,
        cost_ms=cost,
        gain_ms=cost,
        wall_ms=max(evidence.wall_ms(), cost),
        occurrences=1.0,
        affected=affected,
        confidence=ESTIMATED,
        evidence=(
            f"{plural(facts.samples, 'stack sample')} of such requests, taken outside of operators, found them here",
        ),
        advice=PYTHON if facts.what == "python" else BLOCKED,
        caveats=(f"Estimated from samples: give or take {percent(1 / math.sqrt(facts.samples))} of the figure",),
        route=route,
    )


def _from_window(evidence: Evidence, gap: GapFacts) -> Finding:
    cost = gap.per_request_ms
    route = evidence.route_of(gap.starts_ms, gap.count)
    idle = "the device idles" if gap.device else "no operator runs"
    return window_finding(
        Kind.HOST_GAP,
        f"{_doing(gap)} for {ms(cost)} {evidence.per(gap.requests_affected, route=route)} while {idle}",
        site=gap.site,
        cost_ms=cost,
        gain_ms=gap.recoverable_ms,
        wall_ms=evidence.wall_ms(gap.starts_ms, gap.requests_affected),
        occurrences=gap.count / max(gap.requests_affected, 1),
        affected=gap.requests_affected,
        confidence=NAMELESS if _by_chance(evidence, gap) else _confidence(gap),
        evidence=(
            f"{occurrences(gap.count, 'gap', gap.requests_affected)}, {ms(gap.total_ms)} traced in all",
            f"The longest takes {ms(gap.max_ms)}{look_at(evidence, gap.starts_ms)}",
        ),
        advice={"python": PYTHON, "blocked": BLOCKED, "ops": OPERATORS}.get(gap.host, UNKNOWN),
        route=route,
    )


def _together(evidence: Evidence, leading: list[Finding]) -> Iterable[Finding]:
    """Put what prepares the input of the same requests together: one phase, however many functions take part in it."""
    worth = [f for f in leading if f.confidence > NAMELESS and (evidence.lone_step or is_worth_telling(f, evidence))]
    first = max(worth, key=lambda f: f.recoverable_ms, default=None)
    alike = [f for f in worth if first and (f.requests_affected, f.route) == (first.requests_affected, first.route)]
    if first is None or len(alike) < 2:
        yield from leading
        return
    yield from (f for f in leading if f not in alike)
    alike.sort(key=lambda f: -f.recoverable_ms)
    cost = sum(f.per_request_ms for f in alike)
    wall = first.per_request_ms / first.share_of_request
    names = ", ".join(f"{place(f.site)} {ms(f.per_request_ms)}" for f in alike if f.site)
    yield replace(
        first,
        title=f"The host prepares the input for {ms(cost)} {evidence.per(first.requests_affected)} before the first "
        f"launch, most of it in {place(first.site) if first.site else 'one function'}, while the device idles",
        per_request_ms=cost,
        share_of_request=min(cost / wall, 1.0),
        recoverable_ms=min(sum(f.recoverable_ms for f in alike), wall),
        confidence=min(f.confidence for f in alike),
        evidence=(f"One after another: {names}", *first.evidence),
    )


def _unproven(finding: Finding) -> Finding:
    return replace(finding, title=f"{finding.title}; {ONCE}", confidence=UNPROVEN)


def _doing(gap: GapFacts) -> str:
    at = f" in {place(gap.site)}" if gap.site else ""
    callee = gap.callee or (gap.site.callee if gap.site else "")
    if gap.host == "python":
        return f"Python runs{at}"
    if gap.host == "blocked":
        return f"{call(callee)}{at} blocks" if callee else f"A blocking call{at} holds the request"
    if gap.host == "ops":
        return f"{f'`{callee}`' if callee else 'An operator'}{at} keeps the host busy"
    return f"The host does something unrecorded{at}"


def _by_chance(evidence: Evidence, gap: GapFacts) -> bool:
    """Return whether a thread that waited for its turn would look the same."""
    once = gap.count == 1 and gap.requests_affected == 1 and evidence.summary and evidence.summary.window.requests > 1
    return bool(once) and gap.host == "python" and gap.per_request_ms < TURN_MS


def _confidence(gap: GapFacts) -> float:
    if gap.host == "unknown" or not (gap.site or gap.callee):
        return NAMELESS
    return 0.9 if gap.site and gap.site.exact else 0.75


def _from_spike(account: Account, claim: Claim) -> Finding:
    at = (place(claim.site) if claim.site else "an unknown place") + thread_of(claim)
    callee = claim.site.callee if claim.site else ""
    blocked = claim.seen_as is Activity.BLOCKED
    if blocked:
        title = (
            f"{call(callee)} in {at} blocked the request for {ms(claim.ms)}"
            if callee
            else (f"A blocking call in {at} held the request for {ms(claim.ms)}")
        )
    else:
        title = f"Python in {at} held the request for {ms(claim.ms)}"
    return spike_finding(
        Kind.HOST_GAP,
        title,
        account,
        claim,
        occurrences=1.0,
        confidence=0.85 if len(claim.samples) >= 3 else 0.7,
        evidence=(seen_in(claim), explains(account, claim)),
        advice=BLOCKED if blocked else PYTHON,
        caveats=()
        if blocked
        else ("Samples see lines, not operators: a part of this time may be the model's own work",),
    )
