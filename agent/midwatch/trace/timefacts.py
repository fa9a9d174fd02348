"""Where the time of the usual requests went, where no device is used: what was recorded first, then what was seen.

Operators, collections, waits for known locks and compilations have a start and an end, so their time is exact. What
they leave is divided by the stack samples that fell into it, as any sampling profiler does: each stands for the usual
time between two, and for how late it came. So the shares are estimates, and say on how many samples they rest. A
request that waits for a thread that runs the model is where that thread is; where that thread rests, it is where its
own thread is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from midwatch.model.site import Site
from midwatch.model.trace import TimeFacts
from midwatch.trace.intervals import Cover
from midwatch.trace.pauses import Pause
from midwatch.trace.samples import Seen, site_of
from midwatch.trace.scene import Scene
from midwatch.trace.spans import Part, RequestSpan

FEWEST = 6
"""Samples: fewer say nothing of shares, since the standard error of a half is 20 % then."""
_HELD_NS = 1_000_000
"""A look so late shows where the interpreter was let go, and not what held it."""
_MOST_REQUESTS = 256
_MOST_FACTS = 12
_WATCHED = 0.5
"""Samples that stand for less than this share of what they divide leave the rest unknown."""
_EVERYONE = 0
"""Stands for the thread of what holds all of them."""
Place = tuple[str, str, Site | None]
"""What, the name of the thread, and where."""
_Timed = tuple[Place, int, int, int]
"""A place, the thread that it held, start and end."""
_UNKNOWN: Place = ("unknown", "", None)


@dataclass(slots=True)
class _Sum:
    ns: float = 0.0
    looks: set[int] = field(default_factory=set)
    """When samples found it so. Requests that share a unit share its samples, and each is one look."""
    requests: set[int] = field(default_factory=set)

    def add(self, ns: int, request: RequestSpan, looks: Iterable[int] = ()) -> None:
        """Count time of one request."""
        if ns > 0:
            self.ns += ns
            self.requests.add(request.index)
            self.looks.update(looks)


@dataclass(frozen=True, slots=True)
class _Look:
    at: int
    part: Part
    weight: int
    what: str
    site: Site | None


def time_facts(scene: Scene, pauses: list[Pause]) -> tuple[TimeFacts, ...]:
    """Divide the time of the usual requests; empty where a device was used, and where records may be missing."""
    cut_off = {caveat.code for caveat in scene.trace.caveats} & {"truncated", "bounded"}
    if cut_off or scene.has_device or scene.device_expected:
        return ()
    requests = scene.main[:_MOST_REQUESTS]
    total = sum(request.wall for request in requests)
    if total <= 0:
        return ()
    tracked = _Tracked(scene, pauses)
    exact: dict[Place, _Sum] = defaultdict(_Sum)
    seen: dict[Place, _Sum] = defaultdict(_Sum)
    left = 0
    for request in requests:
        rest = _recorded(scene, request, tracked, exact)
        left += sum(end - start for start, end in rest)
        for place, ns, look in _looks(scene, request, rest):
            seen[place].add(ns, request, look)
    found = [*exact.items(), *_estimated(_by_function(seen), left)]
    facts = [_fact(place, part, total, len(requests)) for place, part in found if part.ns > 0]
    return tuple(sorted(facts, key=lambda fact: -fact.share)[:_MOST_FACTS])


def _fact(place: Place, part: _Sum, total: int, requests: int) -> TimeFacts:
    what, thread, site = place
    per_request_ms = part.ns / requests / 1e6
    return TimeFacts(what, part.ns / total, per_request_ms, len(part.looks), thread, site, len(part.requests))


class _Tracked:
    """What has a start and an end beside operators: collections, known locks, compilations, the units of others."""

    def __init__(self, scene: Scene, pauses: list[Pause]) -> None:
        found = [*_collections(pauses), *_tracks(scene)]
        self._places = [place for place, *_ in found]
        self._threads = [thread for _, thread, *_ in found]
        self._starts = np.array([start for *_, start, _ in found], np.int64)
        self._ends = np.array([end for *_, end in found], np.int64)

    def of(self, request: RequestSpan) -> dict[Place, list[tuple[int, int]]]:
        """Return what falls into a request, by place; what comes first has the first claim to a moment."""
        threads = {_EVERYONE, *(part.thread_id for part in request.parts)}
        opens = {part.thread_id: part.start for part in request.parts if part.is_unit}
        mine: dict[Place, list[tuple[int, int]]] = defaultdict(list)
        for i in np.flatnonzero((self._starts < request.end) & (self._ends > request.start)).tolist():
            place, thread, end = self._places[i], self._threads[i], int(self._ends[i])
            if place[0] == "queued":
                end = min(end, opens.get(thread, request.start))  # until its thread turns to this request
            if thread in threads and int(self._starts[i]) < end > request.start:
                mine[place].append((int(self._starts[i]), end))
        return mine


def _collections(pauses: list[Pause]) -> Iterator[_Timed]:
    for pause in pauses:
        yield ("gc", "", pause.site if pause.explicit else None), _EVERYONE, pause.start, pause.end


def _tracks(scene: Scene) -> Iterator[_Timed]:
    trace, tracks = scene.trace, scene.trace.tracks
    if tracks is None:
        return
    for lock in tracks.locks:
        start = trace.local(lock.unix_ns)
        yield ("lock", "", site_of(lock.waiter, how="sample")), lock.thread_id, start, start + lock.duration_ns
    for event in tracks.compiles:
        start = trace.local(event.start_unix_ns)
        yield ("compile", "", None), event.thread_id, start, start + event.duration_ns
    for unit in tracks.units:
        start = trace.local(unit.start_unix_ns)
        yield ("queued", unit.thread_name, None), unit.thread_id, start, start + unit.duration_ns


class _Claims:
    """Time of one request, each moment of it claimed once."""

    def __init__(self, request: RequestSpan) -> None:
        self._request = request
        self._taken = Cover.union(np.array([], np.int64), np.array([], np.int64))

    def claim(self, spans: Iterable[tuple[int, int]]) -> int:
        """Take what is still free of ``spans``; return how much that is."""
        request = self._request
        mine = [(max(a, request.start), min(b, request.end)) for a, b in spans]
        before = self._taken.total
        self._taken = Cover.union(
            np.concatenate([self._taken.starts, np.array([a for a, _ in mine], np.int64)]),
            np.concatenate([self._taken.ends, np.array([b for _, b in mine], np.int64)]),
        )
        return self._taken.total - before

    def rest(self) -> list[tuple[int, int]]:
        """What nobody has claimed."""
        return self._taken.holes(self._request.start, self._request.end)


def _recorded(scene: Scene, request: RequestSpan, tracked: _Tracked, found: dict[Place, _Sum]) -> list[tuple[int, int]]:
    """Add what has a start and an end to ``found``; return the rest of the request."""
    claims = _Claims(request)
    compiled = [(x.start, x.end) for x in scene.compilations if any(x.lane in part.lanes for part in request.parts)]
    if compiled:
        found["compile", "", None].add(claims.claim(compiled), request)
    found["ops", "", None].add(claims.claim(scene.operators(request).clipped(request.start, request.end)), request)
    for place, spans in tracked.of(request).items():
        found[place].add(claims.claim(spans), request)
    return claims.rest()


def _looks(scene: Scene, request: RequestSpan, rest: list[tuple[int, int]]) -> Iterator[tuple[Place, int, set[int]]]:
    """Yield what was seen in ``rest``: the place, for how many nanoseconds it stands, and when samples saw it."""
    if not scene.sites.samples:
        for part in request.parts:
            for start, end in rest:
                for vote in scene.sites.votes(part.thread_id, part.lanes, max(start, part.start), min(end, part.end)):
                    yield (vote.host, "", vote.site), vote.weight, set()
        return
    names = _names(scene)
    free = Cover.union(np.array([a for a, _ in rest], np.int64), np.array([b for _, b in rest], np.int64))
    ticks: dict[int, list[_Look]] = defaultdict(list)
    for part in request.parts:
        for look in _samples(scene, part, free):
            ticks[look.at].append(look)
    for at, looked in ticks.items():
        # The thread that runs the model before the request's own, and one that does something before one that rests.
        look = min(looked, key=lambda look: (look.what == "idle", not look.part.is_unit))
        named = look.part.is_unit and look.what != "held"
        yield (look.what, names.get(look.part.thread_id, "") if named else "", look.site), look.weight, {at}


def _names(scene: Scene) -> dict[int, str]:
    tracks = scene.trace.tracks
    return {unit.thread_id: unit.thread_name for unit in tracks.units} if tracks is not None else {}


def _samples(scene: Scene, part: Part, free: Cover) -> Iterator[_Look]:
    """Yield the looks at a part's thread that were meant for a moment in ``free``.

    A look waits until the interpreter is let go, and then shows the operator that let it go. So it counts for the
    moment at which the sampler woke.
    """
    thread = scene.sites.samples.of(part.thread_id)
    if thread is None:
        return
    delays = thread.at - thread.due
    woke = thread.at - np.maximum(delays - int(np.percentile(delays, 10)), 0)
    usual = int(np.median(thread.due - thread.since))
    mine = (woke >= part.start) & (woke < part.end) & (free.within(woke, woke + 1) > 0)
    for i in np.flatnonzero(mine).tolist():
        at, asked = int(thread.at[i]), int(woke[i])
        seen = scene.sites.samples.seen[int(thread.stack[i])]
        what = _shown(seen, at - asked, over=at >= part.end, busy=free.inside(at, at + 1) == 0)
        site = None if what == "held" else seen.rests if what == "idle" else seen.site
        what = "outside" if what == "idle" and seen.outside else what
        yield _Look(at, part, usual + free.inside(asked, at), what, site)


def _shown(seen: Seen, delay: int, *, over: bool, busy: bool) -> str:
    """Return what a stack says of the moment for which the look was meant, ``delay`` nanoseconds before.

    ``over`` tells that the thread works for something else by now, ``busy`` that something recorded has begun since.
    """
    if over or seen.host == "unknown":
        return "held"
    if seen.host == "ops" or (seen.host == "python" and busy):
        return "glue" if delay <= _HELD_NS else "held"  # it came to its operator through Python
    if seen.host == "idle" and (busy or delay > _HELD_NS):
        return "held"
    return seen.host


def _by_function(seen: dict[Place, _Sum]) -> dict[Place, _Sum]:
    """Put the lines of one function together under the one that was seen most."""
    groups: dict[tuple[object, ...], list[tuple[Place, _Sum]]] = defaultdict(list)
    for place, part in seen.items():
        what, thread, site = place
        groups[what, thread, site and (site.file, site.function)].append((place, part))
    merged = {}
    for group in groups.values():
        place = max(group, key=lambda pair: pair[1].ns)[0]
        merged[place] = _together(part for _, part in group)
    return merged


def _together(parts: Iterable[_Sum]) -> _Sum:
    whole = _Sum()
    for part in parts:
        whole.ns += part.ns
        whole.looks |= part.looks
        whole.requests |= part.requests
    return whole


def _estimated(seen: dict[Place, _Sum], left: int) -> Iterator[tuple[Place, _Sum]]:
    """Divide the ``left`` nanoseconds among what was seen; what too few samples saw stays unknown."""
    everything = _together(seen.values())
    weight = everything.ns
    if 0 < len(everything.looks) < FEWEST:
        yield _UNKNOWN, _Sum(left, everything.looks)
        return
    whole = weight if everything.looks and weight >= _WATCHED * left else max(weight, left)
    for place, part in seen.items():
        yield place, _Sum(left * part.ns / whole, part.looks, part.requests)
    yield _UNKNOWN, _Sum(left * (whole - weight) / whole if whole else left)
