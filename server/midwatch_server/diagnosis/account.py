"""Where the time of a spike went: every stretch of it claimed by one witness at most.

Exact witnesses come first: collections, compilations, waits for a known lock, a thread that is proven to have held the
interpreter. What they leave goes to the places where the samples found the request's own thread at work, and what these
leave, while it only waits, to the places where they found the thread of its units. A request without a unit waits for
none.

One look says where a thread was at its end. A place is given the time that two looks in a row enclose, and of the time
before the first of them no more than that; what is left is `Account.doubtful`.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from midwatch.model.blame import own_frame
from midwatch.model.samples import CompileEvent, GcPause, LockWait, StackSample
from midwatch.model.site import Frame, Site
from midwatch.model.spike import Baseline, Spike

from midwatch_server.diagnosis.activity import Activity, activity, returns_at_once
from midwatch_server.diagnosis.holders import holders, late_ns
from midwatch_server.diagnosis.lines import Seen, heaviest
from midwatch_server.diagnosis.spans import Span, Taken, clip, total_ms


@dataclass(frozen=True, slots=True)
class Claim:
    """Time of the request that one witness claims alone."""

    ms: float
    share: float
    """Of the overrun, as far as this kind of witness could see it."""
    site: Site | None = None
    seen_as: Activity | None = None
    thread_name: str = ""
    role: str = ""
    last: bool = False
    """Nothing else was seen of this thread in the request after it."""
    pauses: tuple[GcPause, ...] = ()
    compiles: tuple[CompileEvent, ...] = ()
    locks: tuple[LockWait, ...] = ()
    samples: tuple[StackSample, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """The time of one spike, in milliseconds."""

    duration_ms: float
    usual_ms: float
    """The route's median, 0 where it is not known."""
    overrun_ms: float
    """Beyond the usual; the whole duration where that is not known."""
    watched_ms: float
    """From the first sample to the end of the request."""
    collections: tuple[Claim, ...] = ()
    compilations: tuple[Claim, ...] = ()
    waits: tuple[Claim, ...] = ()
    holds: tuple[Claim, ...] = ()
    """Time in which a thread is proven to have held the interpreter."""
    places: tuple[Claim, ...] = ()
    doubtful: tuple[Claim, ...] = ()
    """At most one: time at whose end alone the threads were seen, so that no place can be given it."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims, the largest first."""
        return tuple(
            sorted(
                (*self.collections, *self.compilations, *self.waits, *self.holds, *self.places, *self.doubtful),
                key=lambda claim: -claim.ms,
            )
        )


def frame_site(frames: tuple[Frame, ...], how: str) -> Site | None:
    """Return the service's own line in a stack as an exact site, None for an empty stack."""
    frame = own_frame(frames)
    if frame is None:
        return None
    return Site(frame.file, frame.line, frame.function, frame.module, exact=True, how=how, callee=frame.callee)


def account(spike: Spike, usual: Baseline) -> Account:
    """Divide the time of ``spike`` among what was seen in it."""
    start = spike.request.start_unix_ns
    end = start + spike.request.duration_ns
    duration_ms = spike.request.duration_ns / 1e6
    usual_ms = usual.p50_ms if usual.requests else 0.0
    overrun_ms = max(duration_ms - usual_ms, 0.0)
    samples = _working(spike)
    own = [sample for sample in samples if sample.role == "request"]
    units = [sample for sample in samples if sample.role == "unit"]
    watched = clip([(min((s.unix_ns - s.weight_ns for s in samples), default=end), end)], start, end)
    ledger = _Ledger(start, end, overrun_ms)
    collections = ledger.divide(_collections(spike))
    compilations = ledger.divide(_compilations(spike))
    waits = ledger.divide(_waits(spike))
    holds = ledger.divide(_holds(spike))
    ledger.also_saw(watched)
    before = _before(spike)
    places = tuple(
        claim for seen in (own, units) for claim in ledger.divide(_places(seen, before, has_device=spike.has_device))
    )
    doubtful = ledger.divide(_doubtful(samples))
    return Account(
        duration_ms, usual_ms, overrun_ms, total_ms(watched), collections, compilations, waits, holds, places, doubtful
    )


class _Ledger:
    """Hands out the time of the request, the largest claim first, and never twice."""

    def __init__(self, start: int, end: int, overrun_ms: float) -> None:
        self._start = start
        self._end = end
        self._taken = Taken()
        self._overrun_ms = overrun_ms
        self._visible_ms = overrun_ms

    def also_saw(self, watched: list[Span]) -> None:
        """From here on shares are of the overrun as far as it was watched, or claimed already."""
        self._visible_ms = min(self._overrun_ms, total_ms([*watched, *self._taken.spans])) or self._overrun_ms

    def divide(self, wanted: Mapping[Hashable, tuple[Claim, list[Span]]]) -> tuple[Claim, ...]:
        """Return the claims of ``wanted`` with the time that is theirs, those that get none left out."""
        claims = [(claim, clip(spans, self._start, self._end)) for claim, spans in wanted.values()]
        # What is left of a claim only shrinks: one that is still the largest when it is looked at again is the largest.
        most = [(-_length_ns(spans), number) for number, (_, spans) in enumerate(claims)]
        heapq.heapify(most)
        granted: list[Claim] = []
        while most:
            known, number = most[0]
            claim, spans = claims[number]
            left = self._taken.left_of(spans)
            length_ns = _length_ns(left)
            if length_ns < -known:
                heapq.heapreplace(most, (-length_ns, number))
                continue
            heapq.heappop(most)
            if length_ns > 0:
                self._taken.take(left)
                mine = length_ns / 1e6
                granted.append(replace(claim, ms=mine, share=min(mine / max(self._visible_ms, 1e-6), 1.0)))
        return tuple(granted)


def _length_ns(spans: list[Span]) -> int:
    return sum(end - start for start, end in spans)


def _collections(spike: Spike) -> dict[Hashable, tuple[Claim, list[Span]]]:
    groups: dict[Hashable, list[GcPause]] = defaultdict(list)
    for pause in spike.gc:
        groups[pause.generation, pause.explicit].append(pause)
    return {
        key: (
            Claim(
                0.0,
                0.0,
                site=frame_site(pauses[0].frames, "gc_callback") if pauses[0].explicit else None,
                pauses=tuple(pauses),
            ),
            [(p.start_unix_ns, p.start_unix_ns + p.duration_ns) for p in pauses],
        )
        for key, pauses in groups.items()
    }


def _compilations(spike: Spike) -> dict[Hashable, tuple[Claim, list[Span]]]:
    concerned = _threads(spike)
    groups: dict[Hashable, tuple[Site | None, list[CompileEvent]]] = {}
    for event in spike.compiles:
        # Another thread's compilation holds the request, too; what it called is none of this request's lines.
        frames = event.frames if event.thread_id in concerned else ()
        site = frame_site(frames, "compile_callback")
        groups.setdefault(_function(frames), (site, []))[1].append(event)
    return {
        key: (
            Claim(0.0, 0.0, site=site, compiles=tuple(events)),
            [(event.start_unix_ns, event.start_unix_ns + event.duration_ns) for event in events],
        )
        for key, (site, events) in groups.items()
    }


def _waits(spike: Spike) -> dict[Hashable, tuple[Claim, list[Span]]]:
    concerned = _threads(spike)
    groups: dict[Hashable, list[LockWait]] = defaultdict(list)
    for wait in spike.locks:
        if not concerned or wait.thread_id in concerned:
            groups[wait.lock, _function(wait.waiter)].append(wait)
    return {
        key: (
            Claim(0.0, 0.0, site=frame_site(max(waits, key=_wait_ns).waiter, "sample"), locks=tuple(waits)),
            [(wait.unix_ns, wait.unix_ns + wait.duration_ns) for wait in waits],
        )
        for key, waits in groups.items()
    }


def _threads(spike: Spike) -> set[int]:
    """Return the threads that worked for the request, by the kernel's ids."""
    return {spike.request.thread_id, *(unit.thread_id for unit in spike.units)} - {0}


def _holds(spike: Spike) -> dict[Hashable, tuple[Claim, list[Span]]]:
    groups: dict[Hashable, list[StackSample]] = defaultdict(list)
    for sample in holders(spike):
        groups[sample.thread_id, _function(sample.frames)].append(sample)
    return {
        key: (
            Claim(0.0, 0.0, site=frame_site(looks[0].frames, "sample"), role=looks[0].role, samples=tuple(looks)),
            [(look.unix_ns - late_ns(look), look.unix_ns) for look in looks],
        )
        for key, looks in groups.items()
    }


def _wait_ns(wait: LockWait) -> int:
    return wait.duration_ns


def _function(frames: tuple[Frame, ...]) -> tuple[str, str]:
    frame = own_frame(frames)
    return (frame.file, frame.function) if frame else ("", "")


def _working(spike: Spike) -> list[StackSample]:
    """Return the samples of the request's own thread and of its units' threads that show work, not waiting for work."""
    unit_threads = {unit.thread_id for unit in spike.units}
    return [
        sample
        for sample in spike.samples
        if (sample.role == "request" or (sample.role == "unit" and sample.thread_id in unit_threads))
        and activity(sample.frames, has_device=spike.has_device) is not Activity.IDLE
    ]


Before = Mapping[tuple[int, int], StackSample]
"""By thread and time of a look: the look at that thread before it."""


def _before(spike: Spike) -> Before:
    before: dict[tuple[int, int], StackSample] = {}
    last: dict[int, StackSample] = {}
    for sample in sorted(spike.samples, key=lambda sample: sample.unix_ns):
        if sample.thread_id in last:
            before[sample.thread_id, sample.unix_ns] = last[sample.thread_id]
        last[sample.thread_id] = sample
    return before


def _places(
    samples: list[StackSample], before: Before, *, has_device: bool
) -> dict[Hashable, tuple[Claim, list[Span]]]:
    def place_of(sample: StackSample) -> Hashable:
        return sample.thread_id, activity(sample.frames, has_device=has_device), _function(sample.frames)

    groups: dict[Hashable, list[Seen]] = defaultdict(list)
    for sample in samples:
        if not returns_at_once(sample.frames):
            key = place_of(sample)
            earlier = before.get((sample.thread_id, sample.unix_ns))
            same = earlier if earlier is not None and place_of(earlier) == key else None
            groups[key].append(Seen(sample, same, sample.weight_ns))
    last_of = {sample.thread_id: sample for sample in sorted(samples, key=lambda sample: sample.unix_ns)}
    found: dict[Hashable, tuple[Claim, list[Span]]] = {}
    for key, group in groups.items():
        witnessed = _witnessed(group)
        spans = [(seen.look.unix_ns - seen.time_ns, seen.look.unix_ns) for seen in witnessed]
        found[key] = _place(witnessed, last_of, has_device=has_device), spans
    return found


def _witnessed(group: list[Seen]) -> list[Seen]:
    """Return the time that two looks in a row enclose, and before the first of them at most as long again."""
    known_ns = sum(seen.time_ns for seen in group if seen.before is not None)
    return [seen if seen.before is not None else replace(seen, time_ns=min(seen.time_ns, known_ns)) for seen in group]


def _doubtful(samples: list[StackSample]) -> dict[Hashable, tuple[Claim, list[Span]]]:
    if not samples:
        return {}
    spans = [(sample.unix_ns - sample.weight_ns, sample.unix_ns) for sample in samples]
    return {"doubtful": (Claim(0.0, 0.0, samples=tuple(samples)), spans)}


def _place(group: list[Seen], last_of: Mapping[int, StackSample], *, has_device: bool) -> Claim:
    shown, looks = heaviest(group), [seen.look for seen in group]
    return Claim(
        0.0,
        0.0,
        site=frame_site(shown.frames, "sample"),
        seen_as=activity(shown.frames, has_device=has_device),
        thread_name=shown.thread_name,
        role=looks[0].role,
        last=last_of[shown.thread_id] in looks,
        samples=tuple(looks),
    )
