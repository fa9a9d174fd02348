"""Facts of requests that waited for their data loader, compiled, or crossed graph breaks."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from midwatch.model.site import Site
from midwatch.model.trace import CompileFacts, GraphBreakFacts, LoaderFacts
from midwatch.trace.replay import Cut
from midwatch.trace.scene import Scene
from midwatch.trace.spans import RequestSpan
from midwatch.trace.stalls import Break, Stall

_STALLED = 0.02
"""Of the request: below, taking a batch that is ready costs as much."""
_LONG = 3.0
"""Times the median wait: what makes a wait one of those that come every so many steps."""
_LONGS = 3

Recover = Callable[[dict[int, list[Cut]]], float]
"""What the requests would gain without these stretches of host work: the median, in untraced milliseconds."""


def loader_facts(scene: Scene, recover: Recover) -> LoaderFacts | None:
    """What the requests spent in ``DataLoader.__next__``; None where there was no data loader."""
    held = _united(_held(scene, scene.loads))
    if not held:
        return None
    waited = [(request, sum(b - a for a, b in held.get(request.index, ()))) for request in scene.spans.fair]
    stalled = [(request, length) for request, length in waited if length > _STALLED * request.wall]
    cuts = {request.index: held[request.index] for request, _ in stalled}
    longest = sorted((cut for request, _ in waited for cut in held.get(request.index, ())), key=lambda c: c[0] - c[1])
    return LoaderFacts(
        count=len(longest),
        total_ms=sum(length for _, length in waited) / 1e6,
        share=sum(length for _, length in waited) / max(sum(request.wall for request, _ in waited), 1),
        requests_affected=len(stalled),
        per_request_ms=_mean(length for _, length in stalled),
        wall_ms=_mean(request.wall for request, _ in stalled),
        idle_ms=_mean(sum((b - a) - scene.busy.inside(a, b) for a, b in cut) for cut in cuts.values()),
        recoverable_ms=recover(cuts) if cuts else 0.0,
        period=_period([length for _, length in waited]),
        site=_most(scene, held.values(), scene.loads),
        starts_ms=tuple(scene.ms(a) for a, _ in longest[:8]),
    )


def traced_compile_facts(
    scene: Scene, recover: Callable[[Mapping[int, list[Cut]]], float | None]
) -> tuple[CompileFacts, ...]:
    """Compilations inside requests, as torch.compile itself marks them in a trace."""
    each = _held(scene, scene.compilations)
    if not each:
        return ()
    held, count = _united(each), sum(map(len, each.values()))
    cuts = [cut for found in held.values() for cut in found]
    total_ms = sum(b - a for a, b in cuts) / 1e6
    sites = [s for x in scene.compilations if (s := scene.sites.at((x.lane,), x.start)) is not None]
    site = sites[0] if sites else None
    return (CompileFacts("torch.compile", count, total_ms, len(held), site, recover(held)),)


def graph_break_facts(scene: Scene, recover: Recover) -> GraphBreakFacts | None:
    """Graph breaks inside whole requests; None where there were none."""
    breaks, calls = scene.regions
    held = _united(_held(scene, breaks))
    if not held:
        return None
    calls_of = _held(scene, calls)
    longest = sorted((cut for cuts in held.values() for cut in cuts), key=lambda cut: cut[0] - cut[1])
    return GraphBreakFacts(
        count=sum(_inside(request, x) for x in breaks for request in scene.spans.fair),
        calls=sum(len(calls_of.get(index, ())) for index in held),
        total_ms=sum(b - a for a, b in longest) / 1e6,
        requests_affected=len(held),
        per_request_ms=statistics.median(sum(b - a for a, b in cuts) for cuts in held.values()) / 1e6,
        recoverable_ms=recover(held),
        sites=_resumed(scene),
        starts_ms=tuple(scene.ms(a) for a, _ in longest[:8]),
    )


def _held(scene: Scene, stalls: Iterable[Stall]) -> dict[int, list[Cut]]:
    """The stalls on the threads of each fair request while these worked for it, clipped to it, by its index."""
    found: dict[int, list[Cut]] = defaultdict(list)
    stalls = tuple(stalls)
    for request in scene.spans.fair:
        for stall in stalls:
            for part in request.parts:
                if stall.lane in part.lanes and min(stall.end, part.end) > max(stall.start, part.start):
                    found[request.index].append((max(stall.start, part.start), min(stall.end, part.end)))
    return found


def _united(held: dict[int, list[Cut]]) -> dict[int, list[Cut]]:
    """The same time without what is in two of them: of two threads that wait at once, or of one wait inside another."""
    return {index: _union(cuts) for index, cuts in held.items()}


def _union(cuts: list[Cut]) -> list[Cut]:
    """Unlike `Cover.union`, which takes two that touch for one."""
    united: list[Cut] = []
    for a, b in sorted(cuts):
        if united and a < united[-1][1]:
            united[-1] = (united[-1][0], max(b, united[-1][1]))
        else:
            united.append((a, b))
    return united


def _inside(request: RequestSpan, found: Break) -> bool:
    return any(found.lane in part.lanes and part.start <= found.at < part.end for part in request.parts)


def _mean(values: Iterable[int]) -> float:
    every = list(values)
    return sum(every) / len(every) / 1e6 if every else 0.0


def _period(waits: list[int]) -> int:
    """Every how many steps a long wait comes, where long ones come at even distances; 0 where they do not."""
    usual = statistics.median(waits) if waits else 0
    long = [i for i, wait in enumerate(waits) if wait > _LONG * usual]
    steps = {b - a for a, b in pairwise(long)}
    return steps.pop() if len(long) >= _LONGS and len(steps) == 1 and min(steps) > 1 else 0


def _most(scene: Scene, held: Iterable[list[Cut]], stalls: Iterable[Stall]) -> Site | None:
    """The function of the service's own in which most of the time passed, or that asked for the batch."""
    lanes = tuple({stall.lane for stall in stalls})
    weights: dict[Site, int] = defaultdict(int)
    for cuts in held:
        for a, b in cuts:
            for vote in scene.sites.votes(scene.threads.native.get(lanes[0], 0), lanes, a, b):
                if vote.site is not None:
                    weights[vote.site] += vote.weight
    return max(weights, key=lambda site: weights[site]) if weights else None


def _resumed(scene: Scene) -> tuple[Site, ...]:
    """The lines at which the compiled code was left, as the names of the resuming functions tell them."""
    return tuple(dict.fromkeys(site for x in scene.regions[0] if (site := scene.sites.resumed(x.lane, x.at))))
