"""Which requests are spikes: a pure function of the latencies that a route has shown so far, hence replayable."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from midwatch.detect.deadline import OWN, baseline, deadline
from midwatch.model.spike import Baseline
from midwatch.requests.sketch import Sketch

GENERATION = 5_000
"""Requests of one generation. Quantiles come from the present generation and the one before it."""
_REFRESH = 500
_MAX_SHAPES = 256
_SHAPE_MEDIANS = 3.0
_SHIFT_MEMORY = 100
_SHIFT_SHARE = 0.6


class Verdict(Enum):
    """What becomes of one request."""

    NORMAL = "normal"
    WARMUP = "warmup"
    """One of the first: silent."""
    WINDOW = "window"
    """It met a window of ours: its latency says more about us than about the service."""
    NEW_SHAPE = "new_shape"
    """Its inputs have a shape that was not seen before, and it was not slow."""
    SPIKE = "spike"


@dataclass(frozen=True, slots=True)
class Judgement:
    """``rule`` and ``limit_ns`` say why a spike is one; "" and 0 otherwise."""

    verdict: Verdict
    rule: str = ""
    limit_ns: int = 0


_NORMAL = Judgement(Verdict.NORMAL)
_WARMUP = Judgement(Verdict.WARMUP)
_WINDOW = Judgement(Verdict.WINDOW)
_NEW_SHAPE = Judgement(Verdict.NEW_SHAPE)


class RouteDetector:
    """Judges the requests of one route, one after another."""

    def __init__(self, *, warmup: int = 20, slo_ms: float = 0.0) -> None:
        self._warmup_left = warmup
        self._slo_ms = slo_ms
        self._now = Sketch()
        self._before = Sketch()
        self._shapes: set[str] = set()
        self._overdue_share = 0.0
        self._deadline = deadline(self._now, slo_ms)
        self._refresh_after = 1
        """Learnt requests until the deadline is worked out anew."""

    @property
    def warming_up(self) -> bool:
        """Whether the next request belongs to the warm-up."""
        return self._warmup_left > 0

    @property
    def limit_ns(self) -> int:
        """How long a request may take; 0 during warm-up."""
        return 0 if self._warmup_left > 0 else self._deadline.limit_ns

    @property
    def rule(self) -> str:
        """Where the present deadline comes from, as in `Spike.rule`."""
        return self._deadline.rule

    def baseline(self) -> Baseline:
        """Return what the route normally does."""
        return baseline(self._both())

    def judge(self, duration_ns: int, *, shape: str = "", in_window: bool = False) -> Judgement:
        """Judge the next request and learn from it.

        Args:
            duration_ns: how long it took.
            shape: `Workload.key` of its inputs, "" where unknown.
            in_window: whether it overlapped a window of ours.
        """
        new_shape = shape != "" and shape not in self._shapes and self._is_new(shape)
        if self._warmup_left > 0:
            self._warmup_left -= 1
            return _WARMUP
        if in_window:
            return _WINDOW
        if new_shape:
            return self._judge_new_shape(duration_ns)
        limit = self._deadline
        if duration_ns <= limit.limit_ns:
            self._overdue_share -= self._overdue_share / _SHIFT_MEMORY
            self._learn(duration_ns)
            return _NORMAL
        self._overdue_share += (1.0 - self._overdue_share) / _SHIFT_MEMORY
        if self._overdue_share > _SHIFT_SHARE:
            self._start_over()
        return Judgement(Verdict.SPIKE, limit.rule, limit.limit_ns)

    def _judge_new_shape(self, duration_ns: int) -> Judgement:
        median_ns = self._both().quantile(0.5)
        limit_ns = int(_SHAPE_MEDIANS * median_ns)
        if median_ns and duration_ns > limit_ns:
            return Judgement(Verdict.SPIKE, "new_shape", limit_ns)
        return _NEW_SHAPE

    def _is_new(self, shape: str) -> bool:
        if len(self._shapes) >= _MAX_SHAPES:
            return False
        self._shapes.add(shape)
        return True

    def _learn(self, duration_ns: int) -> None:
        if self._now.count >= GENERATION:
            self._before, self._now = self._now, Sketch()
            self._refresh_after = 1
        self._now.add(duration_ns)
        self._refresh_after -= 1
        if self._refresh_after <= 0:
            self._refresh()

    def _start_over(self) -> None:
        """Most of the last hundred were overdue: this is no spike any more but the route's new level."""
        self._now, self._before = Sketch(), Sketch()
        self._overdue_share = 0.0
        self._refresh()

    def _refresh(self) -> None:
        """Work out the deadline. That takes longer than to judge a hundred requests, so it is done seldom: after each
        tenth more of requests, at most `_REFRESH`.
        """
        seen = self._now.count + self._before.count
        self._deadline = deadline(self._both(), self._slo_ms)
        self._refresh_after = max(1, min(_REFRESH, seen // 10))
        if seen < OWN:
            self._refresh_after = min(self._refresh_after, OWN - seen)

    def _both(self) -> Sketch:
        if self._before.count == 0:
            return self._now
        both = Sketch()
        both.merge(self._before)
        both.merge(self._now)
        return both
