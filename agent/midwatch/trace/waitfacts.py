"""Waits grouped by cause and site, with what a request would gain without them."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable

from midwatch.model.site import Site
from midwatch.model.trace import WaitFacts
from midwatch.trace.scene import Scene
from midwatch.trace.waits import Wait

_MOST = 40

Recover = Callable[[dict[int, set[int]]], float]
"""What the requests would gain without these waits: the median, in milliseconds."""


def wait_sites(scene: Scene, waits: list[Wait]) -> list[Site | None]:
    """The line of each wait. One that no sample hit takes the line of those like it: same call, same work around it."""
    found = [_own_site(scene, wait) for wait in waits]
    alike: dict[tuple[object, ...], Counter[Site]] = defaultdict(Counter)
    for wait, site in zip(waits, found, strict=True):
        if site is not None:
            alike[_likeness(scene, wait)][site] += wait.length
    return [site or _most_seen(alike, _likeness(scene, wait)) for wait, site in zip(waits, found, strict=True)]


def _most_seen(alike: dict[tuple[object, ...], Counter[Site]], key: tuple[object, ...]) -> Site | None:
    seen = alike.get(key)
    return seen.most_common(1)[0][0] if seen else None


def _own_site(scene: Scene, wait: Wait) -> Site | None:
    thread = scene.threads.native.get(wait.lane, 0)
    votes = scene.sites.votes(thread, (wait.lane,), wait.start, wait.end)
    for vote in votes:
        if vote.site is not None:
            return vote.site
    return None


def _likeness(scene: Scene, wait: Wait) -> tuple[object, ...]:
    device = scene.trace.device
    work = int(device.name[wait.work]) if wait.work >= 0 else -1
    grid = int(device.shape[wait.work]) if wait.work >= 0 else -1
    return wait.lane, wait.cause, wait.api, wait.bytes, work, grid, wait.followed


def wait_facts(scene: Scene, waits: list[Wait], sites: list[Site | None], recover: Recover) -> tuple[WaitFacts, ...]:
    """Group the waits of whole requests, the costliest first."""
    whole = {r.index for r in scene.spans.fair}
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, (wait, site) in enumerate(zip(waits, sites, strict=True)):
        if whole.intersection(wait.requests):
            key: tuple[object, ...] = (
                (site.file, site.line, site.function) if site is not None else _likeness(scene, wait)
            )
            groups[wait.cause, key].append(index)
    costly = sorted(groups.values(), key=lambda group: -sum(waits[i].length for i in group))
    return tuple(
        _fact(scene, [(i, waits[i]) for i in group], sites[group[0]], whole, recover) for group in costly[:_MOST]
    )


def _fact(
    scene: Scene, group: list[tuple[int, Wait]], site: Site | None, whole: set[int], recover: Recover
) -> WaitFacts:
    per_request: dict[int, int] = defaultdict(int)
    drop: dict[int, set[int]] = defaultdict(set)
    for index, wait in group:
        for request in whole.intersection(wait.requests):
            per_request[request] += wait.length
            if wait.followed:
                drop[request].add(index)
    longest = sorted((wait for _, wait in group), key=lambda w: -w.length)
    followed = sum(w.followed for w in longest)
    return WaitFacts(
        cause=longest[0].cause,
        api=longest[0].api,
        count=len(group),
        total_ms=sum(w.length for w in longest) / 1e6,
        max_ms=longest[0].length / 1e6,
        requests_affected=len(per_request),
        per_request_ms=statistics.median(per_request.values()) / 1e6,
        recoverable_ms=recover(drop) if drop else 0.0,
        handover=len(longest) - followed,
        followed_by_work=followed,
        device_busy_ms=sum(scene.busy.inside(w.start, w.end) for w in longest) / 1e6,
        copy_bytes=sum(w.bytes for w in longest),
        thread_id=scene.threads.native.get(longest[0].lane, 0),
        site=site,
        starts_ms=tuple(round(w.start / 1e6, 3) for w in longest[:8]),
        launches_after=statistics.median(w.launches_after for w in longest if w.followed) if followed else 0.0,
    )
