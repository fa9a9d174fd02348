"""How long a request may take before it counts as a spike.

A route with at least `OWN` requests has a deadline of its own, the largest of

* three times its median: a spike is something else than a slow day;
* one and a half times its 95th percentile: a route with two kinds of requests is not one long alarm;
* its median and ten milliseconds: what the scheduler of a busy host does to a request is not worth a look.

The 95th percentile and not the 99th, since a fault that hits every fiftieth request would lift the latter over its own
latency and so hide itself. Requests that were flagged do not enter the sketch for the same reason.

A route with fewer requests has `slo_ms` where that is set, else ten times its median and at least 250 ms.
"""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.spike import Baseline
from midwatch.requests.sketch import Sketch

OWN = 200
_MEDIANS = 3.0
_P95S = 1.5
_OVER_MEDIAN_NS = 10_000_000
_LOW_MEDIANS = 10.0
_LOW_NS = 250_000_000


@dataclass(frozen=True, slots=True)
class Deadline:
    """``limit_ns`` from the beginning of a request; ``rule`` as in `Spike.rule`."""

    limit_ns: int
    rule: str


def deadline(sketch: Sketch, slo_ms: float) -> Deadline:
    """Return the deadline of a route with this sketch."""
    if sketch.count >= OWN:
        p50_ns, p95_ns = sketch.quantiles(0.5, 0.95)
        return Deadline(int(max(_MEDIANS * p50_ns, _P95S * p95_ns, p50_ns + _OVER_MEDIAN_NS)), "sketch")
    if slo_ms > 0:
        return Deadline(int(slo_ms * 1e6), "slo")
    return Deadline(int(max(_LOW_MEDIANS * sketch.quantile(0.5), _LOW_NS)), "low_traffic")


def baseline(sketch: Sketch) -> Baseline:
    """Return what the route normally does, in milliseconds."""
    p50_ns, p90_ns, p99_ns = sketch.quantiles(0.5, 0.9, 0.99)
    return Baseline(requests=sketch.count, p50_ms=p50_ns / 1e6, p90_ms=p90_ns / 1e6, p99_ms=p99_ns / 1e6)
