"""What requests would gain without a cause: replays of a sample of them, the median taken."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence

from midwatch.trace.launchfacts import squeezable
from midwatch.trace.plan import Plan
from midwatch.trace.replay import Cut, replay
from midwatch.trace.untraced import correct

_FEWEST = 3
"""Requests whose median is set beside the untraced one."""
GRAPH_LAUNCH_NS = 10_000
"""What one replay of a CUDA graph takes the host, for the call in Python and the launch in the driver.

CUDA.jl's documentation measures 3.5 us of the host for a graph of 80 small kernels and 8 us for one of 8; the call from
Python through PyTorch comes on top. While a profiler records, a launch takes some 1.7 us a node (`clean_graph` on an
H200), which is the profiler's cost and not the graph's.
"""
MOST = 16
"""Requests replayed for one cause; the median of so many does not move much with more."""


class Gains:
    """What requests would gain. A replay runs with the profiler's cost taken out, so that it gives untraced times."""

    def __init__(self, plans: Sequence[Plan], usual: Collection[int], untraced_p50_ms: float | None) -> None:
        """Take all plans, the indexes of usual requests, and the untraced latency of those where it is known."""
        self._plans = {plan.request.index: plan for plan in plans}
        self._usual = [index for index in self._plans if index in usual] or list(self._plans)
        known = untraced_p50_ms is not None and untraced_p50_ms > 0 and len(self._usual) >= _FEWEST
        sample = [self._plans[i] for i in _spread(self._usual)]
        self._as = correct(sample, untraced_p50_ms * 1e6 if untraced_p50_ms and known else None)
        self._base = {plan.request.index: self._replay(plan.request.index) for plan in sample}
        self.known = self._as.known
        """True where the factor comes from a known latency."""
        self.traced_ms = statistics.median(plan.request.wall for plan in sample) / 1e6 if sample else 0.0
        """Median of the requests that the factor was taken from."""
        left = statistics.median(self._base.values()) / 1e6 if sample else 0.0
        self.factor = min(1.0, left / self.traced_ms) if self.traced_ms else 1.0
        """What traced time of a request is to be multiplied with to get untraced time."""

    def without_waits(self, waits: Mapping[int, set[int]]) -> float:
        """Median gain, in traced milliseconds, of the requests when these waits of theirs do not happen."""
        return self._median({i: self._replay(i, drop=waits[i]) for i in self._chosen(waits)}) / self.factor

    def without_host(self, cuts: Mapping[int, list[Cut]]) -> float:
        """Median gain, in untraced milliseconds, of the requests when these stretches of host work do not happen."""
        return self._median({i: self._replay(i, cuts=cuts[i]) for i in self._chosen(cuts)})

    def without_stops(self, cuts: Mapping[int, list[Cut]], waits: Mapping[int, set[int]] | None = None) -> float | None:
        """Median gain, in untraced milliseconds, without these stretches of host work and these waits.

        None where none of the requests can be replayed.
        """
        drop = waits or {}
        chosen = self._chosen({**drop, **cuts})
        if not chosen:
            return None
        return self._median({i: self._replay(i, drop=drop.get(i, ()), cuts=cuts.get(i, ())) for i in chosen})

    def launched_at_once(self) -> tuple[float, float]:
        """Median gain when each run of launches is one, and what is left of the request; traced milliseconds.

        As a CUDA graph would: a run costs the host `GRAPH_LAUNCH_NS`, or its first launch where that takes longer.
        Kernels are those that were recorded, with their lengths and their types; on the device they follow each other
        with the spacing of work that stood in line in this trace, or 1 us where none did. (Nodes of real graphs on an
        H200 follow each other after 0.3 us, so with many tiny kernels a little more is gained.) The work starts when
        the launch call begins, as it does behind a single launch. What the host does between runs, waits and gaps,
        stays, and so do copies of inputs and results.
        """
        chosen = [i for i in _spread(self._usual) if self._plans[i].items]
        if not chosen:
            return 0.0, 0.0
        gain = (
            self._median(
                {i: self._replay(i, squeeze=squeezable(self._plans[i]), graph=GRAPH_LAUNCH_NS) for i in chosen}
            )
            / self.factor
        )
        return gain, max(0.0, statistics.median(self._plans[i].request.wall for i in chosen) / 1e6 - gain)

    def _replay(
        self,
        index: int,
        *,
        drop: Collection[int] = (),
        cuts: Sequence[Cut] = (),
        squeeze: Collection[int] = (),
        graph: float = 0.0,
    ) -> float:
        taken = self._as
        return replay(
            self._plans[index],
            recording=taken.recording,
            stalls=taken.stalls,
            drop=drop,
            cuts=cuts,
            squeeze=squeeze,
            graph=graph,
        )

    def _chosen(self, keys: Mapping[int, object]) -> list[int]:
        return _spread([i for i in keys if i in self._plans])

    def _median(self, after: Mapping[int, float]) -> float:
        gains = []
        for index, left in after.items():
            if index not in self._base:
                self._base[index] = self._replay(index)
            gains.append(self._base[index] - left)
        return max(0.0, statistics.median(gains)) / 1e6 if gains else 0.0


def _spread(keys: list[int]) -> list[int]:
    if len(keys) <= MOST:
        return keys
    return [keys[i * len(keys) // MOST] for i in range(MOST)]
