"""Waits grouped by cause and site, with what a request would gain without them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable

from midwatch.model.site import Site
from midwatch.model.trace import WaitFacts
from midwatch.trace.scene import Scene
from midwatch.trace.waits import Wait
from midwatch.trace.waitsites import Located

_MOST = 40

Recover = Callable[[dict[int, set[int]]], float]
"""What the requests would gain without these waits: the median, in milliseconds."""


def wait_facts(scene: Scene, located: list[Located], recover: Recover) -> tuple[WaitFacts, ...]:
    """Group the waits of whole requests, the costliest first."""
    whole = {r.index for r in scene.spans.fair}
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for index, (wait, site, likeness) in enumerate((x.wait, x.site, x.likeness) for x in located):
        if whole.intersection(wait.requests):
            key = (site.file, site.line, site.function) if site is not None else likeness
            groups[wait.cause, key].append(index)
    costly = sorted(groups.values(), key=lambda group: -sum(located[i].wait.length for i in group))
    return tuple(
        _fact(scene, [(i, located[i].wait) for i in group], located[group[0]].site, whole, recover)
        for group in costly[:_MOST]
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
        starts_ms=tuple(scene.ms(w.start) for w in longest[:8]),
        launches_after=statistics.median(w.launches_after for w in longest if w.followed) if followed else 0.0,
        leading=sum(w.followed and not w.launches_before for w in longest),
    )
