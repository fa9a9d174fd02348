"""Replays of a sample of requests, scaled so that the unchanged replay gives the untraced time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from midwatch.trace.launchfacts import squeezable
from midwatch.trace.plan import Plan
from midwatch.trace.replay import Cut, calibrate, replay

MOST = 16
"""Requests replayed for one cause; the median of so many does not move much with more."""


class Gains:
    """What requests would gain, in traced milliseconds: times `factor` they are untraced ones."""

    def __init__(self, plans: Sequence[Plan], untraced_p50_ms: float | None) -> None:
        self._plans = {plan.request.index: plan for plan in plans}
        self._order = list(self._plans)
        self._scale = 1.0
        self.factor = 1.0
        sample = [self._plans[i] for i in self._spread(self._order)]
        if untraced_p50_ms is not None and sample:
            self._scale = calibrate(sample, untraced_p50_ms * 1e6)
            before = statistics.median(plan.request.wall for plan in sample)
            after = statistics.median(replay(plan, self._scale) for plan in sample)
            self.factor = min(1.0, after / before) if before else 1.0
        self._base = {plan.request.index: replay(plan, self._scale) for plan in sample}

    def without_waits(self, waits: Mapping[int, set[int]]) -> float:
        """Median gain of the requests when these waits of theirs do not happen."""
        return self._median({i: replay(self._plans[i], self._scale, drop=waits[i]) for i in self._chosen(waits)})

    def without_host(self, cuts: Mapping[int, list[Cut]]) -> float:
        """Median gain of the requests when these stretches of host work do not happen."""
        return self._median({i: replay(self._plans[i], self._scale, cuts=cuts[i]) for i in self._chosen(cuts)})

    def launched_at_once(self) -> tuple[float, float]:
        """Median gain when each run of launches is one, and the request's time then, both traced milliseconds."""
        chosen = self._spread(self._order)
        after = {i: replay(self._plans[i], self._scale, squeeze=squeezable(self._plans[i])) for i in chosen}
        left = statistics.median(after.values()) / 1e6 / self.factor if after else 0.0
        return self._median(after), left

    def _chosen(self, keys: Mapping[int, object]) -> list[int]:
        return self._spread([i for i in keys if i in self._plans])

    @staticmethod
    def _spread(keys: list[int]) -> list[int]:
        if len(keys) <= MOST:
            return keys
        return [keys[i * len(keys) // MOST] for i in range(MOST)]

    def _median(self, after: Mapping[int, float]) -> float:
        gains = []
        for index, left in after.items():
            if index not in self._base:
                self._base[index] = replay(self._plans[index], self._scale)
            gains.append(self._base[index] - left)
        return max(0.0, statistics.median(gains)) / 1e6 / self.factor if gains else 0.0
