"""Why the model's work stood still: each stretch is divided among what the host did in it, and grouped by site."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from midwatch.model.site import Site
from midwatch.model.trace import GapFacts
from midwatch.trace import apis
from midwatch.trace.intervals import Cover
from midwatch.trace.pauses import Pause
from midwatch.trace.replay import Cut
from midwatch.trace.samples import site_of
from midwatch.trace.scene import Scene
from midwatch.trace.sites import Vote, common
from midwatch.trace.stretches import SHORTEST_NS, Stretch

_SMALLEST_NS = 50_000
"""A collection, lock or allocation below this is not told apart; what a witness saw must be as long as a gap."""
_CALLS = frozenset({"blocked", "lock"})
"""Reasons for which the call matters as much as the function that makes it."""
_MOST = 40
_COMMON = 3
_ALIKE = 4
"""Times as long as another: what made one stretch far longer than its likes is not what they have in common."""

Recover = Callable[[dict[int, list[Cut]]], float]
"""What the requests would gain without these stretches of host work: the median, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Reason:
    """What held the host between two times."""

    start: int
    end: int
    host: str
    site: Site | None


@dataclass(frozen=True, slots=True)
class Piece:
    """The share of a stretch that has one reason."""

    stretch: Stretch
    host: str
    site: Site | None
    start: int
    length: int
    until: int
    """End of the time that it is a share of."""
    late: tuple[Site, ...] = ()
    """Of what nobody saw: what was under way when the interpreter was let go after it, the innermost frame first."""

    @property
    def idle(self) -> int:
        """Nanoseconds of it for which the work stood still."""
        return round(self.stretch.idle * self.length / self.stretch.length)

    @property
    def event(self) -> tuple[int, int]:
        """What requests that share a unit have in common: thread and time."""
        return self.stretch.part.thread_id, self.until

    @property
    def key(self) -> tuple[object, ...]:
        """Pieces with equal keys are one gap, seen many times."""
        site = self.site
        callee = site.callee if site is not None and self.host in _CALLS else ""
        return self.host, self.stretch.device, *((site.file, site.function, callee) if site is not None else ())


def divide(scene: Scene, stretch: Stretch, pauses: Iterable[Pause]) -> list[Piece]:
    """Split one stretch: known causes first, the rest by who was seen running."""
    pieces = []
    left = [(stretch.start, stretch.end)]
    for reason in _known(scene, stretch, pauses):
        taken = 0
        rest = []
        for a, b in left:
            x, y = max(a, reason.start), min(b, reason.end)
            if y <= x:
                rest.append((a, b))
                continue
            taken += y - x
            rest += [(p, q) for p, q in ((a, x), (y, b)) if q > p]
        left = rest
        if taken >= _SMALLEST_NS:
            start = max(stretch.start, reason.start)
            pieces.append(Piece(stretch, reason.host, reason.site, start, taken, min(stretch.end, reason.end)))
    for a, b in left:
        pieces += _witnessed(scene, stretch, a, b)
    return pieces


def _known(scene: Scene, stretch: Stretch, pauses: Iterable[Pause]) -> list[Reason]:
    reasons = [Reason(p.start, p.end, "gc", p.site) for p in pauses if p.end > stretch.start and p.start < stretch.end]
    tracks = scene.trace.tracks
    if tracks is not None:
        for lock in tracks.locks:
            start = scene.trace.local(lock.unix_ns)
            if lock.thread_id == stretch.part.thread_id:
                reasons.append(Reason(start, start + lock.duration_ns, "lock", site_of(lock.waiter, how="sample")))
        for event in tracks.compiles:
            start = scene.trace.local(event.start_unix_ns)
            if event.thread_id in {0, stretch.part.thread_id}:
                reasons.append(Reason(start, start + event.duration_ns, "compile", None))
    reasons += _marked(scene, stretch)
    reasons += _calls(scene, stretch)
    return [r for r in reasons if r.end > stretch.start and r.start < stretch.end]


def _marked(scene: Scene, stretch: Stretch) -> list[Reason]:
    """What other rules tell of: compilations, waits for a data loader, graph breaks."""
    kinds = {"compile": scene.compilations, "data": scene.loads, "graph_break": scene.regions[0]}
    return [
        Reason(stall.start, stall.end, kind, None)
        for kind, stalls in kinds.items()
        for stall in stalls
        if stall.lane in stretch.part.lanes and stall.end > stretch.start and stall.start < stretch.end
    ]


def _calls(scene: Scene, stretch: Stretch) -> list[Reason]:
    """Allocator calls, and operators that computed on the host, where they fill the better part of the stretch."""
    runtime, lanes = scene.trace.runtime, stretch.part.lanes
    first, last = np.searchsorted(runtime.start, [stretch.start, stretch.end], side="left").tolist()
    kinds = scene.links.kinds[first:last]
    rows = first + np.flatnonzero(np.isin(kinds, (apis.ALLOC, apis.FREE)) & np.isin(runtime.lane[first:last], lanes))
    reasons = []
    for row in rows.tolist():
        start, end = int(runtime.start[row]), int(runtime.end[row])
        if end - start >= _SMALLEST_NS:
            site = _best_site(scene, stretch, start, end)
            reasons.append(Reason(start, end, "alloc", site))
    if stretch.device:
        ops = scene.trace.ops
        first, last = np.searchsorted(ops.start, [stretch.start, stretch.end], side="left").tolist()
        mine = first + np.flatnonzero(np.isin(ops.lane[first:last], lanes) & scene.computes[first:last])
        cover = Cover.union(ops.start[mine], np.minimum(ops.end[mine], stretch.end))
        if cover.total * 2 > stretch.length:
            reasons += [
                Reason(a, b, "ops", _best_site(scene, stretch, a, b))
                for a, b in cover.clipped(stretch.start, stretch.end)
            ]
    return reasons


def _best_site(scene: Scene, stretch: Stretch, start: int, end: int) -> Site | None:
    votes = scene.sites.votes(stretch.part.thread_id, stretch.part.lanes, start, end)
    return votes[0].site if votes else None


def _witnessed(scene: Scene, stretch: Stretch, start: int, end: int) -> list[Piece]:
    if end - start < SHORTEST_NS:
        return []
    part = stretch.part
    votes = _by_function(scene.sites.votes(part.thread_id, part.lanes, start, end))
    total = sum(vote.weight for vote in votes)
    resting = sum(vote.weight for vote in votes if vote.host == "idle")
    if stretch.owner is not None and 2 * resting > total:
        return _witnessed(scene, replace(stretch, part=stretch.owner, owner=None), start, end)
    pieces = []
    at = start
    for vote in votes:
        length = vote.weight * (end - start) // max(total, end - start)
        if vote.host != "idle" and length >= SHORTEST_NS:
            pieces.append(Piece(stretch, vote.host, vote.site, at, length, end))
        at += length
    # A thread that recorded nothing and was not sampled may have slept: only one that works can be said to pause.
    if part.lanes and end - at >= (SHORTEST_NS if total else 1):
        pieces.append(Piece(stretch, "unknown", None, at, end - at, end, scene.sites.late(part.thread_id, at, end)))
    return pieces


def _by_function(votes: list[Vote]) -> list[Vote]:
    """Put the lines of one function together under the one that was seen most."""
    merged: dict[tuple[object, ...], Vote] = {}
    for vote in votes:
        site = vote.site
        key = (vote.host, site and (site.file, site.function, site.callee if vote.host in _CALLS else ""))
        first = merged.setdefault(key, vote)
        if first is not vote:
            merged[key] = replace(first, weight=first.weight + vote.weight)
    return sorted(merged.values(), key=lambda vote: -vote.weight)


def adopt(pieces: list[Piece]) -> list[Piece]:
    """Give what nobody saw the reason of its likes: stretches of like length between the same work in other requests.

    Where none of them was seen either, but the interpreter was held throughout, it was held by what they have in common
    at their ends; of one or two alone nothing is common but chance.
    """
    seen: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    ends: dict[tuple[int, int], dict[tuple[int, int], tuple[tuple[Site, ...], int]]] = defaultdict(dict)
    for piece in pieces:
        if piece.site is not None and max(piece.stretch.around) >= 0:
            seen[piece.stretch.around].append(piece)
        if piece.late:
            ends[piece.stretch.around][piece.event] = (piece.late, piece.length)
    return [_adopted(piece, seen, ends) for piece in pieces]


def _adopted(
    piece: Piece,
    seen: Mapping[tuple[int, int], list[Piece]],
    ends: Mapping[tuple[int, int], Mapping[tuple[int, int], tuple[tuple[Site, ...], int]]],
) -> Piece:
    if piece.host != "unknown" or piece.site is not None:
        return piece
    around = piece.stretch.around
    likes: Counter[tuple[str, Site | None]] = Counter()
    for other in seen.get(around, ()):
        if other.length <= _ALIKE * piece.length and piece.length <= _ALIKE * other.length:
            likes[other.host, other.site] += other.length
    if likes:
        host, site = likes.most_common(1)[0][0]
        return replace(piece, host=host, site=site)
    held = common([*ends[around].values()]) if piece.late and len(ends[around]) >= _COMMON else None
    return piece if held is None else replace(piece, host="python", site=replace(held, exact=False, callee=""))


def gap_facts(scene: Scene, pieces: list[Piece], recover: Recover) -> tuple[GapFacts, ...]:
    """Group pieces by site, the costliest first."""
    groups: dict[tuple[object, ...], list[Piece]] = defaultdict(list)
    for piece in pieces:
        groups[piece.key].append(piece)
    costly = sorted(groups.values(), key=lambda group: -sum(p.idle for p in group))
    return tuple(_fact(scene, group, recover) for group in costly[:_MOST])


def _affected(per_request: Mapping[int, int]) -> Mapping[int, int]:
    """Return the requests that the gap is about: all that have it, or the few that have most of it.

    Of one stretch of a worker's a request may see all and those queued behind it the end: a median over both would be
    that of nobody.
    """
    most = max(per_request.values())
    few = {request: idle for request, idle in per_request.items() if idle * _ALIKE >= most}
    return few if 2 * sum(few.values()) > sum(per_request.values()) else per_request


def _fact(scene: Scene, group: list[Piece], recover: Recover) -> GapFacts:
    per_request: dict[int, int] = defaultdict(int)
    once: dict[tuple[int, int], Piece] = {}
    """Requests that share a unit share its gaps; each is counted once."""
    cuts: dict[int, list[Cut]] = defaultdict(list)
    lines: dict[Site | None, int] = defaultdict(int)
    for piece in group:
        per_request[piece.stretch.request] += piece.idle
        if piece.event not in once or once[piece.event].idle < piece.idle:
            once[piece.event] = piece
        cuts[piece.stretch.request].append((piece.start, piece.start + piece.length))
        lines[piece.site] += piece.length
    longest = sorted(once.values(), key=lambda p: -p.idle)
    site = max(lines, key=lambda s: lines[s])
    affected = _affected(per_request)
    return GapFacts(
        host=group[0].host,
        count=len(longest),
        total_ms=sum(p.idle for p in longest) / 1e6,
        max_ms=longest[0].idle / 1e6,
        requests_affected=len(affected),
        per_request_ms=statistics.median(affected.values()) / 1e6,
        recoverable_ms=recover({request: cuts[request] for request in affected}),
        device=group[0].stretch.device,
        thread_id=longest[0].stretch.part.thread_id,
        site=site,
        starts_ms=tuple(scene.ms(p.start) for p in longest[:8]),
        callee=site.callee if site is not None else "",
        leading=all(p.stretch.device and p.stretch.around[0] < 0 for p in group),
    )
