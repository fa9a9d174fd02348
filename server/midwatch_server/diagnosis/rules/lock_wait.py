"""``lock_wait``: a lock that another thread held kept the request waiting.

The site is the line that waits; ``related_site`` is the line at which the holder was seen, and that is the one to
change: what it does under the lock. What a replay without the wait gives is recoverable as far as the holder could let
go earlier, which the evidence cannot tell, and the caveat says so.

Source: the watchdog's lock probe (waiter and, for locks that the probe can attribute, holder), or samples of a thread
inside ``acquire``, which know no holder. No threshold of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.site import Site
from midwatch.model.trace import LockFacts

from midwatch_server.diagnosis.account import Account, Claim, frame_site
from midwatch_server.diagnosis.activity import Activity
from midwatch_server.diagnosis.build import gain_of, spike_finding, window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.phrases import explains, hidden, look_at, seen_in
from midwatch_server.diagnosis.words import ms, place, plural

ADVICE = (
    Advice(
        "Do the slow work before taking the lock, and hold it only to swap the result in",
        "Whoever needs the lock waits for everything that its holder does meanwhile, I/O and device waits included",
        "The slowest requests (p99), and the time that requests wait at this line",
    ),
)
CAVEAT = "The gain is what the request would save if the lock were free; how early its holder can let go is not known"


class LockWait:
    """Waits for a lock inside requests."""

    kind = Kind.LOCK_WAIT

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield one finding a lock and waiting site."""
        if evidence.summary is not None:
            for facts in evidence.summary.locks:
                yield _from_window(evidence, facts)
        if evidence.account is not None:
            for claim in evidence.account.waits:
                yield _from_probe(evidence.account, claim)
            for claim in evidence.account.places:
                if claim.seen_as is Activity.LOCK:
                    yield _from_samples(evidence.account, claim)


def _title(lock: str, waiter: Site | None, cost: str, holder: Site | None, thread: str, *, past: bool) -> str:
    waits = "waited" if past else "waits"
    held = "held" if past else "holds"
    at = f" at {place(waiter)}" if waiter else ""
    name = f"lock `{lock.split(' ', 1)[-1]}`" if " " in lock else lock or "a lock"
    title = f"The request {waits} {cost} for {name}{at}"
    if holder is not None:
        by = f"thread {thread}" if thread else "another thread"
        title += f", which {by} {held} in {place(holder)}"
    return title


def _from_window(evidence: Evidence, facts: LockFacts) -> Finding:
    cost, gain = facts.per_request_ms, gain_of(facts.per_request_ms, facts.recoverable_ms)
    route = evidence.route_of(facts.starts_ms, facts.count)
    per = evidence.per(facts.requests_affected, route=route)
    at = look_at(evidence, facts.starts_ms)
    return window_finding(
        Kind.LOCK_WAIT,
        _title(facts.lock, facts.waiter, f"{ms(cost)} {per}", facts.holder, facts.holder_thread, past=False),
        site=facts.waiter,
        related_site=facts.holder,
        cost_ms=cost,
        gain_ms=gain,
        wall_ms=_wall_ms(evidence, facts),
        occurrences=facts.count / max(facts.requests_affected, 1),
        affected=facts.requests_affected,
        confidence=0.85 if facts.holder else 0.7,
        evidence=(
            f"{plural(facts.count, 'wait')} for {facts.lock}, {ms(facts.total_ms)} traced" + at,
            *hidden(cost, gain),
        ),
        advice=ADVICE,
        caveats=(CAVEAT,),
        route=route,
    )


def _wall_ms(evidence: Evidence, facts: LockFacts) -> float:
    if not facts.starts_ms:
        return evidence.wall_with_ms(facts.per_request_ms, facts.requests_affected)
    return max(evidence.wall_ms(facts.starts_ms, facts.requests_affected), facts.per_request_ms)


def _from_probe(account: Account, claim: Claim) -> Finding:
    longest = max(claim.locks, key=lambda wait: wait.duration_ns)
    holder = frame_site(longest.holder, "sample")
    return spike_finding(
        Kind.LOCK_WAIT,
        _title(longest.lock, claim.site, ms(claim.ms), holder, longest.holder_thread_name, past=True),
        account,
        claim,
        occurrences=float(len(claim.locks)),
        confidence=0.9 if holder else 0.7,
        evidence=(
            f"{plural(len(claim.locks), 'wait')} for {longest.lock}, {ms(claim.ms)} in all"
            + ("" if holder else "; who held it was not seen"),
            explains(account, claim),
        ),
        advice=ADVICE,
        caveats=(CAVEAT,),
        related_site=holder,
    )


def _from_samples(account: Account, claim: Claim) -> Finding:
    return spike_finding(
        Kind.LOCK_WAIT,
        _title("", claim.site, ms(claim.ms), None, "", past=True),
        account,
        claim,
        occurrences=1.0,
        confidence=0.6,
        evidence=(seen_in(claim), "Who held the lock was not seen", explains(account, claim)),
        advice=ADVICE,
        caveats=(CAVEAT,),
    )
