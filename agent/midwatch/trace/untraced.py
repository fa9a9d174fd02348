"""From traced to untraced time: how much of a request is the profiler's own cost.

Two things differ between a window and the time around it: the profiler slows the host, and another tenant of the device
may have stalled it more or less. The cost of an event says how much the host was slowed; the untraced latency, where it
is known, then tells what is left of the stalls.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from midwatch.trace.plan import Plan
from midwatch.trace.replay import replay
from midwatch.trace.scene import Scene

_OP_NS = 1_000
_CALL_NS = 4_000
"""What recording one operator and one call of the runtime costs the host: fitted to traces of services whose untraced
latency is known (H200, torch 2.11, operators and CUDA). Python functions add too little to tell."""
_FASTEST = 0.4
"""The profiler has been seen to slow a host 2.5 times, not more."""
_STEPS = 14


@dataclass(frozen=True, slots=True)
class Correction:
    """What to multiply host work and unexplained delays of the device with."""

    host: float = 1.0
    stalls: float = 1.0


def correct(scene: Scene, plans: Sequence[Plan], untraced_ns: float | None) -> Correction:
    """Find the correction under which the median request takes ``untraced_ns``, as nearly as can be.

    Without a known latency the cost of the events alone is taken out.
    """
    if not plans:
        return Correction()
    host = statistics.median(_host_share(scene, plan) for plan in plans)
    if untraced_ns is None:
        return Correction(host)

    def at(position: float) -> Correction:
        """A path from the fastest request that can be believed to the traced one; time only grows along it."""
        if position < 1:
            return Correction(_FASTEST + position * (host - _FASTEST), 0.0)
        if position < 2:
            return Correction(host, position - 1)
        return Correction(host + (position - 2) * (1 - host))

    low, high = 0.0, 3.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        found = at(middle)
        if statistics.median(replay(p, found.host, stalls=found.stalls) for p in plans) > untraced_ns:
            high = middle
        else:
            low = middle
    return at((low + high) / 2)


def _host_share(scene: Scene, plan: Plan) -> float:
    """Share of a request's host time that is its own work and not the recording of events."""
    request = plan.request
    waited = sum(item.end - item.start for item in plan.items if item.wait >= 0)
    host = max(request.wall - waited, 1)
    ops = scene.trace.ops
    recorded = 0
    for part in request.parts:
        first, last = np.searchsorted(ops.start, [part.start, part.end], side="left").tolist()
        recorded += int(np.isin(ops.lane[first:last], part.lanes).sum())
    cost = recorded * _OP_NS + len(scene.runtime_of(request)) * _CALL_NS
    return float(min(1.0, max(_FASTEST, 1 - cost / host)))
