"""What the detector would have flagged: the live code over recorded latencies."""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.detect.detector import Judgement, RouteDetector


def replay(latencies_ms: Iterable[float], *, warmup: int = 20, slo_ms: float = 0.0) -> list[Judgement]:
    """Return the judgement of each request of one route, in order.

    Args:
        latencies_ms: milliseconds, in the order in which the requests ended.
        warmup: how many of the first are silent.
        slo_ms: `Settings.slo_ms`.
    """
    detector = RouteDetector(warmup=warmup, slo_ms=slo_ms)
    return [detector.judge(int(latency_ms * 1e6)) for latency_ms in latencies_ms]
