"""Which requests are spikes: a pure function of the latencies that a route has shown so far, hence replayable.

A latency is taken for the product of the route's level at this moment (`midwatch.detect.level`), a factor for the shape
of its inputs (`midwatch.detect.shapes`) and a ratio that is noise (`midwatch.detect.tail`). Each is learnt at a pace of
its own: the level within a few hundred requests, since load and caches change it; the noise over a hundred thousand.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import Enum

from midwatch.detect.deadline import MEDIANS, OWN, first_deadline, own_deadline
from midwatch.detect.level import Level
from midwatch.detect.shapes import Shape, Shapes
from midwatch.detect.tail import Tail
from midwatch.model.spike import Baseline

_COLD_RECUR = 3
_COLD_WITHIN = 1_000
_TAIL_LASTS = 20_000
_ANEW = 2_000
"""Requests of which the noise is learnt anew, the slow ones among them, where these are a kind of requests."""


class Verdict(Enum):
    """What becomes of one request."""

    NORMAL = "normal"
    WARMUP = "warmup"
    """One of the first: silent."""
    WINDOW = "window"
    """It met a window of ours: its latency says more about us than about the service."""
    NEW_SHAPE = "new_shape"
    """One of the first of a shape that was not seen before, and there is nothing to be said of it."""
    SPIKE = "spike"


class Event(Enum):
    """What is wrong with many requests, and not with one."""

    SHIFT = "shift"
    """The route's level has doubled, and stays there."""
    TAIL = "tail"
    """Its slower half becomes slower and slower, and its median stays."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """``rule`` and ``limit_ns`` say why a spike is one; "" and 0 otherwise. ``event`` is what became known with it."""

    verdict: Verdict
    rule: str = ""
    limit_ns: int = 0
    event: Event | None = None


_WARMUP = Judgement(Verdict.WARMUP)
_WINDOW = Judgement(Verdict.WINDOW)
_NORMAL = Judgement(Verdict.NORMAL)
_NEW_SHAPE = Judgement(Verdict.NEW_SHAPE)


class RouteDetector:
    """Judges the requests of one route, one after another."""

    def __init__(self, *, warmup: int = 20, slo_ms: float = 0.0) -> None:
        self._warmup_left = warmup
        self._slo_ms = slo_ms
        self._level = Level()
        self._tail = Tail()
        self._shapes = Shapes()
        self._cold: deque[int] = deque(maxlen=_COLD_RECUR)
        """The numbers of the last first requests of a shape that took over three times the usual."""
        self._number = 0
        self._anew_left = 0
        self._tail_number = -_TAIL_LASTS
        """The number of the request at which a tail was told."""
        self._first = first_deadline(0.0, slo_ms)
        self._limit_ns = self._first.limit_ns

    @property
    def warming_up(self) -> bool:
        """Whether the next request belongs to the warm-up."""
        return self._warmup_left > 0

    @property
    def limit_ns(self) -> int:
        """How long a request may take, of the dearest shape that is in use; 0 during warm-up."""
        return 0 if self._warmup_left > 0 else self._limit_ns

    @property
    def rule(self) -> str:
        """Where the present deadline comes from, as in `Spike.rule`."""
        return "sketch" if self._tail.count >= OWN else self._first.rule

    def baseline(self, shape: str = "") -> Baseline:
        """Return what the route normally does with inputs of this shape."""
        tail = self._tail
        if tail.count == 0:
            return Baseline()
        usual_ms = math.exp(self._level.median + self._shapes.factor(shape)) / 1e6
        p50, p90, p99 = (usual_ms * math.exp(ratio) for ratio in tail.quantiles(0.5, 0.9, 0.99))
        return Baseline(tail.count, p50, p90, p99)

    def judge(self, duration_ns: int, *, shape: str = "", in_window: bool = False) -> Judgement:
        """Judge the next request and learn from it.

        Args:
            duration_ns: how long it took.
            shape: `Workload.key` of its inputs, "" where unknown.
            in_window: whether it overlapped a window of ours.
        """
        self._number += 1
        kind = self._shapes.find(shape, self._number)
        if self._warmup_left > 0:
            self._warmup_left -= 1
            return _WARMUP
        if in_window:
            return _WINDOW
        value = math.log(duration_ns) if duration_ns > 0 else 0.0
        level, tail = self._level, self._tail
        if not level.known:
            kind.usual = True
        if not kind.judged:
            return self._judge_first(kind, value, duration_ns)
        usual, several = level.median + kind.factor, self._shapes.several
        limit_ns, rule = self._limit_ns, "sketch"
        if tail.count < OWN:
            rule = self._first.rule
            limit_ns = first_deadline(math.exp(usual), self._slo_ms).limit_ns
        elif several:
            limit_ns = own_deadline(math.exp(usual), tail.limit + kind.slack(level.spread))
        slow = duration_ns > limit_ns
        changed = level.add(value - kind.factor)
        if several:
            kind.learn(value, level.median, level.spread)
        if not slow or rule != "sketch" or self._anew_left > 0:
            self._anew_left = max(0, self._anew_left - 1)
            changed |= tail.add(value - usual if tail.count else 0.0)
        event = self._refresh() if changed else None
        if slow:
            return Judgement(Verdict.SPIKE, rule, limit_ns, event)
        return _NORMAL if event is None else Judgement(Verdict.NORMAL, event=event)

    def _judge_first(self, kind: Shape, value: float, duration_ns: int) -> Judgement:
        """One of the first requests of a shape, which nobody knows yet.

        The very first may compile or take memory: that is told where it recurs. The next ones are held against
        what the dearest of the shapes in use may take, and against those before them.
        """
        level, is_new = self._level, kind.count == 0
        if is_new:
            limit_ns = int(MEDIANS * math.exp(level.median))
        else:
            limit_ns = max(self._limit_ns, own_deadline(math.exp(level.median + kind.factor), self._tail.limit))
        kind.learn(value, level.median, level.spread)
        if duration_ns <= limit_ns or self._tail.count < OWN:
            return _NEW_SHAPE
        if not is_new:
            return Judgement(Verdict.SPIKE, "sketch", limit_ns)
        self._cold.append(self._number)
        if len(self._cold) < _COLD_RECUR or self._number - self._cold[0] > _COLD_WITHIN:
            return _NEW_SHAPE
        return Judgement(Verdict.SPIKE, "new_shape", limit_ns)

    def _refresh(self) -> Event | None:
        """Work out the deadline for requests in flight, and look for what is wrong with many."""
        level, tail = self._level, self._tail
        usual_ns = math.exp(level.median)
        if self._shapes.several:
            dearest = max((kind.factor for kind in self._shapes.recent(self._number)), default=0.0)
            usual_ns *= math.exp(dearest)
        if tail.count < OWN:
            self._first = first_deadline(usual_ns, self._slo_ms)
            self._limit_ns = self._first.limit_ns
            return None
        self._limit_ns = own_deadline(usual_ns, tail.limit)
        level.far = math.log(self._limit_ns / usual_ns)
        widened = level.widened()
        if widened:
            self._tail_number = self._number
        if level.crowded() and self._number - self._tail_number > _TAIL_LASTS:
            self._tail, self._anew_left = Tail(), _ANEW
        if level.shifted():
            return Event.SHIFT
        return Event.TAIL if widened else None
