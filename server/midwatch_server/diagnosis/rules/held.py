"""``host_gap``, where looks came too late or too seldom to say where the time of a spike went.

From a spike alone: `Account.doubtful`, time at whose end a thread was seen once. Where the watchdog itself came late
for most of it, it waited for the interpreter or for a core, and so may every other thread have. One thread may have
held the interpreter: the only one at work at the end of the longest such time, in a call written in C that neither
blocks nor returns at once. That one is named, without claiming its line, and is a cause. All else is a note.

Source: CPython hands the GIL over every 5 ms except in the middle of a call written in C, which thus lets through no
look until it returns; `MIN_LATE_NS` is the agent's own limit for a late turn.
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
from midwatch_server.diagnosis.phrases import explains
from midwatch_server.diagnosis.words import call, ms, place

MIN_LATE_NS = 10_000_000
MOSTLY = 0.5
SUSPECTED = 0.5
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
    at_work = list(_at_work(spike, latest))
    suspect = at_work[0] if len(at_work) == 1 and _may_hold(at_work[0], has_device=spike.has_device) else None
    title = f"The interpreter was held, or the process was not scheduled, for {ms(claim.ms)}"
    site = _site(suspect) if suspect else None
    if suspect and site:
        title += f"; only {_whose(suspect)} was at work at the end, in {call(site.callee)} of {place(site)}"
    seen = "; ".join(f"{_whose(sample)} in {_where(sample)}" for sample in at_work[:MOST_THREADS])
    return spike_finding(
        Kind.HOST_GAP,
        title,
        account,
        replace(claim, site=site),
        occurrences=1.0,
        confidence=SUSPECTED if site else NAMELESS,
        evidence=(
            f"Midwatch's own thread came {ms(_late_ns(latest) / 1e6)} late to look",
            f"At work when it came: {seen}" if seen else "No thread of the process was at work when it came",
            explains(account, claim),
        ),
        advice=HELD,
        caveats=("Who held the interpreter was not seen: while it is held, nobody looks",),
    )


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
