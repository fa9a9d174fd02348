"""``host_gap`` and ``gil_contention``, where looks came too late or too seldom to say where the time of a spike went.

From a spike alone: `Account.doubtful`, time at whose end a thread was seen once. Where the watchdog itself came late
for most of it, it waited for the interpreter or for a core, and so may every other thread have. One thread may have
held the interpreter: the only one that stood, at the end of the longest such time, in a call written in C that neither
computes the model nor blocks nor returns at once. That one is named and is a cause: of the request itself or of its
unit a ``host_gap``, of any other thread ``gil_contention``.

Its line is claimed where the request's own thread is the one and its CPU time proves that it ran: then it was in that
call, since Python between two calls would have let the look through. Of other threads, and of coroutines, no CPU time
is known, so the process may not have been scheduled, and the line is where the thread stood at one moment. What names
nobody is a note.

Source: CPython hands the GIL over every 5 ms except in the middle of a call written in C, which thus lets through no
look until it returns, and then does so at that call; `MIN_LATE_NS` is the agent's own limit for a late turn.
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
from midwatch_server.diagnosis.lines import HELD_NS
from midwatch_server.diagnosis.phrases import explains
from midwatch_server.diagnosis.words import call, ms, place

MIN_LATE_NS = 10_000_000
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
        """Yield at most one finding."""
        spike, account = evidence.spike, evidence.account
        if spike is None or account is None:
            return
        for claim in account.doubtful:
            yield _held(spike, account, claim) if _mostly_late(claim) else _seldom(account, claim)


def _late_ns(sample: StackSample) -> int:
    late_ns = min(sample.late_ns, sample.weight_ns)
    return late_ns if late_ns >= MIN_LATE_NS else 0


def _mostly_late(claim: Claim) -> bool:
    late_ns = sum(map(_late_ns, claim.samples))
    return late_ns > 0 and late_ns >= MOSTLY * sum(sample.weight_ns for sample in claim.samples)


def _held(spike: Spike, account: Account, claim: Claim) -> Finding:
    latest = max(claim.samples, key=_late_ns)
    late = f"Midwatch's own thread came {ms(_late_ns(latest) / 1e6)} late to look"
    at_work = list(_at_work(spike, latest))
    able = [sample for sample in at_work if _may_hold(sample, has_device=spike.has_device)]
    suspect = able[0] if len(able) == 1 else None
    seen_at = frame_site(suspect.frames, "sample") if suspect else None
    if suspect and seen_at and suspect.role == "request" and (ran_ns := _ran_ns(spike, latest)) >= HELD_NS:
        return _proven(account, claim, seen_at, (late, f"The request's own thread ran for {ms(ran_ns / 1e6)} of that"))
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


def _proven(account: Account, claim: Claim, site: Site, evidence: tuple[str, ...]) -> Finding:
    return spike_finding(
        Kind.HOST_GAP,
        f"{call(site.callee)} in {place(site)} held the interpreter, and with it the request, for {ms(claim.ms)}",
        account,
        replace(claim, site=site),
        occurrences=1.0,
        confidence=PROVEN,
        evidence=(*evidence, explains(account, claim)),
        advice=OWN,
    )


def _ran_ns(spike: Spike, latest: StackSample) -> int:
    """Return for how long, at least, the request's own thread ran while the look at it was late; 0 where unknown."""
    request = spike.request
    if request.is_async or request.cpu_ns <= 0:
        return 0
    return _late_ns(latest) - max(request.duration_ns - request.cpu_ns, 0)


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


def _may_hold(sample: StackSample, *, has_device: bool) -> bool:
    """Return whether this thread may have kept the interpreter: plain Python hands it over, and so does what blocks."""
    doing = activity(sample.frames, has_device=has_device)
    in_c = bool(sample.frames and sample.frames[0].callee)
    return doing in (Activity.PYTHON, Activity.GC) and in_c and not returns_at_once(sample.frames)


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
