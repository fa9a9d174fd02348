"""From traced to untraced time: how much of a request is the profiler's own cost.

Two things differ between a window and the time around it: the profiler slows the host, and another tenant of the device
may have stalled it more or less. The cost of an event says how much the host was slowed; the untraced latency, where it
is known, then tells what is left of the stalls.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from midwatch.trace.plan import Plan
from midwatch.trace.replay import replay

_MOST = 4.0
"""Times the usual cost of an event that a machine may need."""
_TOLERATED = 1.05
_STEPS = 14


@dataclass(frozen=True, slots=True)
class Correction:
    """How many times the usual cost of recording to take out, and what is left of the device's stalls."""

    recording: float = 1.0
    stalls: float = 1.0

    known: bool = False
    """True where it gives the untraced latency; else it is the usual cost of recording, and no more."""


def correct(plans: Sequence[Plan], untraced_ns: float | None) -> Correction:
    """Find the correction under which the median request takes ``untraced_ns``.

    Without a known latency, or where the profiler cannot explain the difference (the window caught slow requests),
    the usual cost of recording alone is taken out.
    """
    if not plans or untraced_ns is None or _median(plans, _along(0.0)) > untraced_ns * _TOLERATED:
        return Correction()
    low, high = 0.0, 3.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _median(plans, _along(middle)) > untraced_ns:
            high = middle
        else:
            low = middle
    return _along((low + high) / 2)


def _median(plans: Sequence[Plan], found: Correction) -> float:
    return statistics.median(replay(p, recording=found.recording, stalls=found.stalls) for p in plans)


def _along(position: float) -> Correction:
    """A path from the fastest request that can be believed (0) to the traced one (3): time only grows along it."""
    if position < 1:
        return Correction(_MOST - position * (_MOST - 1), 0.0, known=True)
    if position < 2:
        return Correction(1.0, position - 1, known=True)
    return Correction(3 - position, 1.0, known=True)
