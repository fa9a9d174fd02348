"""How long a request may take before it counts as a spike.

A route with at least `OWN` requests has a deadline of its own: its usual latency at this moment, for inputs of this
shape, times the largest of

* three: a spike is something else than a slow day;
* the ratio that one healthy request in an hour's worth exceeds (`midwatch.detect.tail`): noise is not a spike;
* what makes it ten milliseconds longer: what the scheduler of a busy host does to a request is not worth a look.

Requests that were flagged do not enter the tail, or a fault that hits every fiftieth request would lift the deadline
over its own latency and so hide itself.

A route with fewer requests has `slo_ms` where that is set, else ten times its median and at least 250 ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from midwatch.model.spike import Baseline
from midwatch.requests.sketch import Sketch

OWN = 200
MEDIANS = 3.0
_OVER_MEDIAN_NS = 10_000_000
_LOW_MEDIANS = 10.0
_LOW_NS = 250_000_000
_FURTHEST = 20.0
"""The largest natural logarithm of a ratio."""
_LONGEST_NS = 86_400_000_000_000
"""No deadline is longer than a day, whatever the latencies were: it is added to a time, and both are 64-bit numbers."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """``limit_ns`` from the beginning of a request; ``rule`` as in `Spike.rule`."""

    limit_ns: int
    rule: str


def own_deadline(usual_ns: float, tail: float) -> int:
    """Return the deadline of a route with one of its own.

    Args:
        usual_ns: the median at this moment, of inputs of this shape.
        tail: the natural logarithm of how many times that a healthy request may take.
    """
    limit_ns = max(max(MEDIANS, math.exp(min(tail, _FURTHEST))) * usual_ns, usual_ns + _OVER_MEDIAN_NS)
    return int(min(limit_ns, _LONGEST_NS))


def first_deadline(usual_ns: float, slo_ms: float) -> Deadline:
    """Return the deadline of a route that has none of its own yet; ``usual_ns`` is 0 where nothing was seen."""
    if slo_ms > 0:
        return Deadline(int(min(slo_ms * 1e6, _LONGEST_NS)), "slo")
    return Deadline(int(min(max(_LOW_MEDIANS * usual_ns, _LOW_NS), _LONGEST_NS)), "low_traffic")


def baseline(sketch: Sketch) -> Baseline:
    """Return what all of ``sketch`` amounts to, in milliseconds."""
    p50_ns, p90_ns, p99_ns = sketch.quantiles(0.5, 0.9, 0.99)
    return Baseline(requests=sketch.count, p50_ms=p50_ns / 1e6, p90_ms=p90_ns / 1e6, p99_ms=p99_ns / 1e6)
