"""What requests would gain without several waits at once: without one alone, the next one often takes its place.

A host that waits five times in a row gains nothing from one wait less: the next catches the same time. So the waits of
one cause are removed together, and all of them. What the replay gives must lie within `JointWaitFacts.idle_after_ms`:
where the device never had to stand still after a wait, nothing can be gained from the host running ahead. A wait before
the first launch of a request is for what was launched before it, or hands over the input, and is not among them.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from midwatch.model.trace import JointWaitFacts
from midwatch.trace.scene import Scene
from midwatch.trace.waitfacts import Recover
from midwatch.trace.waits import Wait

_LISTED = 8


def joint_wait_facts(scene: Scene, waits: Sequence[Wait], recover: Recover) -> tuple[JointWaitFacts, ...]:
    """Facts of all waits inside whole requests together, first, and of those of each cause that a request has twice."""
    whole = {request.index for request in scene.spans.fair}
    inside = [
        i
        for i, wait in enumerate(waits)
        if wait.launches_before and wait.followed and whole.intersection(wait.requests)
    ]
    causes: dict[str, list[int]] = defaultdict(list)
    for i in inside:
        causes[waits[i].cause].append(i)
    groups = [("", inside), *causes.items()] if len(causes) > 1 else [*causes.items()]
    facts = (_fact(scene, cause, group, waits, recover) for cause, group in groups)
    return tuple(fact for fact in facts if fact is not None)


def _fact(scene: Scene, cause: str, group: list[int], waits: Sequence[Wait], recover: Recover) -> JointWaitFacts | None:
    ends = {request.index: request.end for request in scene.spans.fair}
    drop: dict[int, set[int]] = defaultdict(set)
    for i in group:
        for request in ends.keys() & waits[i].requests:
            drop[request].add(i)
    if not any(len(some) > 1 for some in drop.values()):
        return None
    chosen = [waits[i] for i in group]
    return JointWaitFacts(
        cause=cause,
        count=len(group),
        total_ms=sum(wait.length for wait in chosen) / 1e6,
        requests_affected=len(drop),
        per_request_ms=statistics.median(sum(waits[i].length for i in some) for some in drop.values()) / 1e6,
        recoverable_ms=recover(drop),
        idle_after_ms=statistics.median(
            _idle_after(scene, (waits[i] for i in some), ends[request]) for request, some in drop.items()
        )
        / 1e6,
        starts_ms=tuple(scene.ms(w.start) for w in sorted(chosen, key=lambda w: -w.length)[:_LISTED]),
    )


def _idle_after(scene: Scene, waits: Iterable[Wait], end: int) -> int:
    """Nanoseconds for which the device idles from the start of the first wait to the end of the request."""
    first = min(wait.start for wait in waits)
    return max(end - first, 0) - scene.busy.inside(first, end)
