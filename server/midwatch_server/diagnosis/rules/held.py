"""``host_gap`` and ``gil_contention``, where looks came too late or too seldom to say where the time of a spike went.

From a spike alone: `Account.doubtful`, time at whose end a thread was seen once. Where the watchdog itself came late
for most of it, it waited for the interpreter or for a core, and so may every other thread have. One thread may have
held the interpreter: the only one that stood, at the end of the longest such time, in a call written in C that neither
computes the model nor blocks nor returns at once. That one is named and is a cause: of the request itself or of its
unit a ``host_gap``, of any other thread ``gil_contention``.

Its line is claimed where CPU time proves that it ran: then it was in that call, since Python between two calls would
have let the look through. For the request's own thread, unless it is an event loop's, the request's CPU time is that
proof; for all others see `holders`, whose time is `Account.holds`. Where no CPU time is known, or several threads have
run, the process may not have been scheduled, and the line is where the thread stood at one moment. What names nobody is
a note.

Source: CPython hands the GIL over every 5 ms except in the middle of a call written in C, which thus lets through no
look until it returns, and then does so at that call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.samples import StackSample
from midwatch.model.site import Site
from midwatch.model.spike import Spike

from midwatch_server.diagnosis.account import Account, Claim, frame_site
from midwatch_server.diagnosis.activity import Activity, activity, returns_at_once
from midwatch_server.diagnosis.build import spike_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.holders import late_ns, may_hold
from midwatch_server.diagnosis.lines import HELD_NS
from midwatch_server.diagnosis.phrases import explains
from midwatch_server.diagnosis.words import call, ms, place

MOSTLY = 0.5
PROVEN, SUSPECTED = 0.9, 0.5
NAMELESS = 0.2
"""Too low for a cause: see `judge.MIN_CONFIDENCE`."""
MOST_THREADS = 3

HELD = (
    Advice(
        "Look for long calls into C that keep the interpreter (parsing, sorting, copying), and at the host's load and "
        "the container's CPU limit",
        "While one thread keeps the interpreter, or the process has no core, no request moves",
        "How late requests of all routes end at the same moments",
    ),
)
OWN = (
    Advice(
        "Move this call off the request path, give it less to do, or run it in another process",
        "It is written in C and keeps the interpreter until it returns: meanwhile no other request moves either",
        "The slowest requests (p99), of all routes",
    ),
)
OTHERS = (
    Advice(
        "Give this call less to do at a time, or run it in another process",
        "It is written in C and keeps the interpreter until it returns: meanwhile no request moves",
        "The slowest requests (p99), of all routes",
    ),
)
SELDOM = (
    Advice(
        "Wait for the next such request, or take a window: midwatch profile SERVICE",
        "One look says where a thread was at one moment, and not for how long",
        "Whether several looks in a row find the same place",
    ),
)


class Held:
    """Time of a spike that no two looks enclose."""

    kind = Kind.HOST_GAP

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield one finding for each function that is proven to have held the interpreter, and one for the rest."""
        spike, account = evidence.spike, evidence.account
        if spike is None or account is None:
            return
        for claim in account.holds:
            if claim.site is not None:
                yield _holder(account, claim, claim.site)
        for claim in account.doubtful:
            yield _held(spike, account, claim) if _mostly_late(claim) else _seldom(account, claim)


def _mostly_late(claim: Claim) -> bool:
    late = sum(map(late_ns, claim.samples))
    return late > 0 and late >= MOSTLY * sum(sample.weight_ns for sample in claim.samples)


def _held(spike: Spike, account: Account, claim: Claim) -> Finding:
    latest = max(claim.samples, key=late_ns)
    late = f"Midwatch's own thread came {ms(late_ns(latest) / 1e6)} late to look"
    at_work = list(_at_work(spike, latest))
    able = [sample for sample in at_work if may_hold(sample, has_device=spike.has_device)]
    suspect = able[0] if len(able) == 1 else None
    seen_at = frame_site(suspect.frames, "sample") if suspect else None
    if suspect and seen_at and suspect.role == "request" and (ran_ns := _ran_ns(spike, latest)) >= HELD_NS:
        ran = f"The request's own thread ran for {ms(ran_ns / 1e6)} of that"
        return _proven(account, claim, suspect, seen_at, (late, ran))
    site = _site(suspect) if suspect else None
    title = f"The interpreter was held, or the process was not scheduled, for {ms(claim.ms)}"
    if suspect and site:
        only = "was at work" if len(at_work) == 1 else "was in a call that can hold it"
        title += f"; only {_whose(suspect)} {only} at the end, in {call(site.callee)} of {place(site)}"
    seen = "; ".join(f"{_whose(sample)} in {_where(sample)}" for sample in at_work[:MOST_THREADS])
    return spike_finding(
        Kind.GIL_CONTENTION if suspect and suspect.role == "other" else Kind.HOST_GAP,
        title,
        account,
        replace(claim, site=site),
        occurrences=1.0,
        confidence=SUSPECTED if site else NAMELESS,
        evidence=(
            late,
            f"At work when it came: {seen}" if seen else "No thread of the process was at work when it came",
            explains(account, claim),
        ),
        advice=HELD,
        caveats=("Who held the interpreter was not seen: while it is held, nobody looks",),
    )


def _holder(account: Account, claim: Claim, site: Site) -> Finding:
    holder = max(claim.samples, key=late_ns)
    late = f"Midwatch's own thread came {ms(late_ns(holder) / 1e6)} late to look"
    ran = f"Of all threads {_whose(holder)} alone ran meanwhile, for {ms(holder.ran_ns / 1e6)} at least"
    return _proven(account, claim, holder, site, (late, ran))


def _proven(account: Account, claim: Claim, suspect: StackSample, site: Site, evidence: tuple[str, ...]) -> Finding:
    other = suspect.role == "other"
    on = f", on {_whose(suspect)}," if suspect.role != "request" else ""
    return spike_finding(
        Kind.GIL_CONTENTION if other else Kind.HOST_GAP,
        f"{call(site.callee)} in {place(site)}{on} held the interpreter, and with it the request, for {ms(claim.ms)}",
        account,
        replace(claim, site=site),
        occurrences=1.0,
        confidence=PROVEN,
        evidence=(*evidence, explains(account, claim)),
        advice=OTHERS if other else OWN,
    )


def _ran_ns(spike: Spike, latest: StackSample) -> int:
    """Return for how long, at least, the request's own thread ran while the look at it was late; 0 where unknown."""
    request = spike.request
    if request.is_async or request.cpu_ns <= 0:
        return 0
    return late_ns(latest) - max(request.duration_ns - request.cpu_ns, 0)


def _seldom(account: Account, claim: Claim) -> Finding:
    longest = max(claim.samples, key=lambda sample: sample.weight_ns)
    return spike_finding(
        Kind.HOST_GAP,
        f"Where {ms(claim.ms)} went is not known: single looks at the end found {_whose(longest)} in {_where(longest)}",
        account,
        replace(claim, site=None if returns_at_once(longest.frames) else _site(longest)),
        occurrences=1.0,
        confidence=NAMELESS,
        evidence=(explains(account, claim),),
        advice=SELDOM,
    )


def _at_work(spike: Spike, look: StackSample) -> Iterator[StackSample]:
    """Yield what the same look found of each thread that did not wait."""
    for sample in spike.samples:
        same = sample.unix_ns == look.unix_ns
        if same and activity(sample.frames, has_device=spike.has_device) not in (Activity.IDLE, Activity.LOCK):
            yield sample


def _site(sample: StackSample) -> Site | None:
    """Return the function at work: its line is where it stood at one moment, and is not claimed."""
    site = frame_site(sample.frames, "")
    return replace(site, exact=False, line=0) if site else None


def _where(sample: StackSample) -> str:
    site = frame_site(sample.frames, "sample")
    return place(site) if site else "an unknown place"


def _whose(sample: StackSample) -> str:
    if sample.role == "request":
        return "the request's own thread"
    return f"thread {sample.thread_name}" if sample.thread_name else "another thread"
