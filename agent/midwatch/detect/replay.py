"""What the detector would have flagged: the live code over recorded latencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from midwatch.detect.deadline import baseline
from midwatch.detect.detector import Judgement, RouteDetector, Verdict
from midwatch.detect.gate import SpikeGate
from midwatch.model.spike import Baseline
from midwatch.requests.sketch import Sketch

_FIRST_NS = 1_000_000_000
"""Where the gate's clock stands at the first request: to a gate, 0 is no moment."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one request. ``told`` is None where no time was given or it is no spike."""

    judgement: Judgement
    told: bool | None = None


class RouteReplay:
    """One route, taken through the same detector and gate as in a service; only counts are kept of its requests.

    No windows are known here, so that no request is left out because of one.
    """

    def __init__(self, *, warmup: int = 20, slo_ms: float = 0.0) -> None:
        self.detector = RouteDetector(warmup=warmup, slo_ms=slo_ms)
        self.verdicts: Counter[Verdict] = Counter()
        self.judged_by: Counter[str] = Counter()
        """Requests after the warm-up, by the rule that each was held against, as in `Spike.rule`."""
        self.told = 0
        self._gate = SpikeGate()
        self._latencies = Sketch()
        self._first_ns: int | None = None
        self._now_ns = 0

    @property
    def requests(self) -> int:
        """How many requests there were, warm-up and spikes among them."""
        return self._latencies.count

    @property
    def max_ms(self) -> float:
        """The longest of all requests; 0.0 where there was none."""
        return self._latencies.max_ns / 1e6

    def all_requests(self) -> Baseline:
        """Return the quantiles of all requests, warm-up and spikes among them."""
        return baseline(self._latencies)

    def take(self, latency_ms: float, *, shape: str = "", ended_ns: int | None = None) -> Replayed:
        """Judge the next request.

        Args:
            latency_ms: how long it took; finite.
            shape: `Workload.key` of its inputs, "" where unknown.
            ended_ns: when it ended, by any clock; None where that is not known. What is earlier than the request
                before it counts as the same moment: the agent's clock does not go back.
        """
        duration_ns = int(latency_ms * 1e6)
        rule, limit_ns = self.detector.rule, self.detector.limit_ns
        judgement = self.detector.judge(duration_ns, shape=shape)
        self._latencies.add(duration_ns)
        self.verdicts[judgement.verdict] += 1
        if judgement.verdict is Verdict.NEW_SHAPE:
            self.judged_by["new_shape"] += 1
        elif judgement.verdict is not Verdict.WARMUP:
            self.judged_by[judgement.rule or rule] += 1
        if ended_ns is not None:
            self._first_ns = ended_ns if self._first_ns is None else self._first_ns
            self._now_ns = max(self._now_ns, ended_ns - self._first_ns + _FIRST_NS)
            if judgement.verdict is Verdict.SPIKE:
                told = self._gate.admit(self._now_ns, watched=0 < limit_ns < duration_ns)
                self.told += told
                return Replayed(judgement, told)
        return Replayed(judgement)


def replay(
    latencies_ms: Iterable[float], *, warmup: int = 20, slo_ms: float = 0.0, shapes: Iterable[str] | None = None
) -> list[Judgement]:
    """Return the judgement of each request of one route, in order.

    Args:
        latencies_ms: milliseconds, in the order in which the requests ended.
        warmup: how many of the first are silent.
        slo_ms: `Settings.slo_ms`.
        shapes: `Workload.key` of each request's inputs, "" where unknown; as many as there are latencies.

    Raises:
        ValueError: There are more or fewer shapes than latencies.
    """
    route = RouteReplay(warmup=warmup, slo_ms=slo_ms)
    if shapes is None:
        return [route.take(latency_ms).judgement for latency_ms in latencies_ms]
    return [
        route.take(latency_ms, shape=shape).judgement for latency_ms, shape in zip(latencies_ms, shapes, strict=True)
    ]
