"""How the work was handed over: launches in runs, what they cost the host, and whether a CUDA graph could take them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

import numpy as np

from midwatch.model.site import Site
from midwatch.model.trace import LaunchFacts
from midwatch.trace.hazards import hazards
from midwatch.trace.intervals import NONE
from midwatch.trace.plan import Plan
from midwatch.trace.scene import Scene
from midwatch.trace.stretches import threshold
from midwatch.trace.waits import Wait

_LOOKED_AT = 8
"""Requests looked at for the site; the rest repeat it."""


def squeezable(plan: Plan) -> frozenset[int]:
    """Positions of items that follow the item before them in one run: no wait and no gap between them."""
    follows = plan.launches[1:] & plan.launches[:-1] & (plan.starts[1:-1] - plan.ends[1:-1] < threshold(plan))
    return frozenset((np.flatnonzero(follows) + 1).tolist())


def launch_facts(
    scene: Scene, plans: Sequence[Plan], waits: list[Wait], recoverable_ms: float, replayed_ms: float
) -> LaunchFacts:
    """Describe the launches of whole requests; the two figures come from the replay."""
    if not plans:
        return LaunchFacts()
    runtime, links = scene.trace.runtime, scene.links
    rows = [scene.runtime_of(plan.request) for plan in plans]
    launches = [r[links.launches[r]] for r in rows]
    calls = np.concatenate(launches)
    runs = [sorted(squeezable(plan)) for plan in plans]
    steps = np.concatenate([np.diff(plan.starts, prepend=0)[run] for plan, run in zip(plans, runs, strict=True)])
    sequences = Counter(_sequence(scene, plan) for plan in plans)
    shapes = Counter(_shapes(scene, plan) for plan in plans)
    return LaunchFacts(
        per_request=statistics.median(len(r) for r in launches),
        median_launch_us=float(np.median(runtime.end[calls] - runtime.start[calls])) / 1e3 if len(calls) else 0.0,
        per_launch_host_us=float(np.median(steps)) / 1e3 if len(steps) else 0.0,
        dispatch_gap_ms=statistics.median(_dispatch_idle(scene, p, r) for p, r in zip(plans, runs, strict=True)) / 1e6,
        recoverable_ms=recoverable_ms,
        replayed_ms=replayed_ms,
        stable_sequence=len(plans) > 1 and len(sequences) == 1,
        sequences=len(sequences),
        stable_shapes=len(plans) > 1 and len(shapes) == 1,
        hazards=hazards(scene, plans, waits, unstable=len(sequences) > 1, reshaped=len(shapes) > 1),
        site=_site(scene, plans),
    )


def _sequence(scene: Scene, plan: Plan) -> tuple[int, ...]:
    return tuple(scene.trace.device.name[plan.works].tolist())


def _shapes(scene: Scene, plan: Plan) -> tuple[int, ...]:
    return tuple(scene.trace.device.shape[plan.works].tolist())


def _dispatch_idle(scene: Scene, plan: Plan, follows: list[int]) -> int:
    """Device idle inside runs: from the return of one launch to the return of the next."""
    starts = plan.ends[follows]
    ends = np.maximum(plan.ends[np.array(follows, np.int64) + 1], starts)
    return int((ends - starts - scene.busy.within(starts, ends)).sum())


def _site(scene: Scene, plans: Sequence[Plan]) -> Site | None:
    votes: Counter[Site] = Counter()
    for plan in plans[:_LOOKED_AT]:
        for part in plan.request.parts:
            starts = plan.starts[:-1][plan.launches] if part.lanes else NONE
            moments = starts[(starts >= part.start) & (starts < part.end)].tolist()
            site = scene.sites.around(part.thread_id, part.lanes, moments)
            if site is not None:
                votes[site] += len(moments)
    return votes.most_common(1)[0][0] if votes else None
