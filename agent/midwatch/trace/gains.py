"""Replays of a sample of requests, scaled so that the unchanged replay gives the untraced time."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence

from midwatch.trace.launchfacts import squeezable
from midwatch.trace.plan import Plan
from midwatch.trace.replay import Cut, replay
from midwatch.trace.scene import Scene
from midwatch.trace.untraced import correct

MOST = 16
"""Requests replayed for one cause; the median of so many does not move much with more."""


class Gains:
    """What requests would gain, in traced milliseconds: times `factor` they are untraced ones.

    A replay runs with the profiler's cost taken out; what it gains is taken as a share of the request.
    """

    def __init__(self, scene: Scene, plans: Sequence[Plan], untraced_p50_ms: float | None) -> None:
        self._plans = {plan.request.index: plan for plan in plans}
        sample = [self._plans[i] for i in _spread(list(self._plans))]
        untraced_ns = untraced_p50_ms * 1e6 if untraced_p50_ms else None
        self._as = correct(scene, sample, untraced_ns)
        self._base = {plan.request.index: self._replay(plan.request.index) for plan in sample}
        self.factor = 1.0
        if sample:
            left = untraced_ns or statistics.median(self._base.values())
            self.factor = min(1.0, left / statistics.median(plan.request.wall for plan in sample))

    def without_waits(self, waits: Mapping[int, set[int]]) -> float:
        """Median gain of the requests when these waits of theirs do not happen."""
        return self._median({i: self._replay(i, drop=waits[i]) for i in self._chosen(waits)})

    def without_host(self, cuts: Mapping[int, list[Cut]]) -> float:
        """Median gain of the requests when these stretches of host work do not happen."""
        return self._median({i: self._replay(i, cuts=cuts[i]) for i in self._chosen(cuts)})

    def launched_at_once(self) -> tuple[float, float]:
        """Median gain when each run of launches is one, and what is left of the median request then."""
        chosen = [i for i in _spread(list(self._plans)) if self._plans[i].items]
        if not chosen:
            return 0.0, 0.0
        after = {i: self._replay(i, squeeze=squeezable(self._plans[i])) for i in chosen}
        gain = self._median(after)
        return gain, max(0.0, statistics.median(self._plans[i].request.wall for i in chosen) / 1e6 - gain)

    def _replay(
        self, index: int, *, drop: Collection[int] = (), cuts: Sequence[Cut] = (), squeeze: Collection[int] = ()
    ) -> float:
        plan, corrected = self._plans[index], self._as
        return replay(plan, corrected.host, drop=drop, cuts=cuts, squeeze=squeeze, stalls=corrected.stalls)

    def _chosen(self, keys: Mapping[int, object]) -> list[int]:
        return _spread([i for i in keys if i in self._plans])

    def _median(self, after: Mapping[int, float]) -> float:
        gains = [self._gain(index, left) for index, left in after.items()]
        return max(0.0, statistics.median(gains)) / 1e6 if gains else 0.0

    def _gain(self, index: int, left: float) -> float:
        plan = self._plans[index]
        if index not in self._base:
            self._base[index] = self._replay(index)
        base = self._base[index]
        return plan.request.wall * (base - left) / base if base > 0 else 0.0


def _spread(keys: list[int]) -> list[int]:
    if len(keys) <= MOST:
        return keys
    return [keys[i * len(keys) // MOST] for i in range(MOST)]
