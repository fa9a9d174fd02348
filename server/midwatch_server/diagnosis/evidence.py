"""What a diagnosis starts from."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from midwatch.model.requests import Workload
from midwatch.model.spike import Baseline, Spike
from midwatch.model.trace import DeviceFacts, RequestFacts, TraceSummary

from midwatch_server.diagnosis.account import Account, account

NOUNS = {"ledger": "request", "annotation": "request", "step": "step", "window": "window"}
MAX_MISSING = 0.05
"""Of the launches: where more kernels are missing, the device's idle time is not known."""
ROUNDED_MS = 0.001
"""Summaries of earlier agents give moments to the microsecond, so one may stand before the request that it opens."""
HARDLY_SLOWED = 0.995
"""A factor from here on changes no figure that is shown: requests take as long without the profiler."""
HOST_LANES = frozenset({"host_ops", "runtime", "python", "samples"})


@dataclass(frozen=True)
class Evidence:
    """A window's facts, a spike, or both, and what the route normally does."""

    summary: TraceSummary | None = None
    spike: Spike | None = None
    baseline: Baseline = Baseline()
    workload: Workload = Workload()

    @cached_property
    def account(self) -> Account | None:
        """The spike's time, each stretch claimed at most once; None without a spike."""
        if self.spike is None:
            return None
        known = self.baseline if self.baseline.requests else self.spike.baseline
        return account(self.spike, known)

    @cached_property
    def usual(self) -> tuple[RequestFacts, ...]:
        """The requests that figures of a usual one refer to: those with device work, else with operators, else all."""
        every = self.summary.requests if self.summary else ()
        working = tuple(facts for facts in every if facts.launches or facts.device_busy_ms)
        return working or tuple(facts for facts in every if facts.op_ms) or every

    @property
    def usual_count(self) -> int:
        """How many requests of the window are usual ones; of a window with many, only some are kept as facts."""
        return self._estimated(self.usual)

    @cached_property
    def main(self) -> tuple[RequestFacts, ...]:
        """The usual requests of the route that most of their time goes to: a median over several routes says nothing.

        Without a device it is their time in operators. Medians and shares of "the request" are theirs.
        """
        spent: dict[str, float] = defaultdict(float)
        computing = not any(facts.launches or facts.device_busy_ms for facts in self.usual)
        for facts in self.usual:
            spent[facts.route] += (computing and facts.op_ms) or facts.wall_ms
        route = max(spent, key=lambda route: spent[route], default="")
        return tuple(facts for facts in self.usual if facts.route == route)

    @property
    def main_count(self) -> int:
        """How many requests of the window are of the main route."""
        return self._estimated(self.main)

    @property
    def routes(self) -> frozenset[str]:
        """All routes of the window."""
        return frozenset(facts.route for facts in self.summary.requests) if self.summary else frozenset()

    def like(self, route: str, request_ms: float) -> tuple[int, float]:
        """Return how many requests of the window are like one of ``request_ms``, and the median of their wall times.

        They are those of ``route``, else those of the main one; what is much shorter than these belongs to another
        route, and is set beside all requests. Untraced milliseconds.
        """
        every = self.summary.requests if self.summary else ()
        some = tuple(facts for facts in every if facts.route == route) if route else ()
        if not some:
            some = self.main if 2 * request_ms >= self.wall_ms() else every
        if not some:
            return 1, self.wall_ms()
        return self._estimated(some), self.untraced_wall(statistics.median(facts.wall_ms for facts in some))

    def count_of(self, route: str) -> int:
        """Return how many requests of the window are of ``route``, "" for all routes."""
        if self.summary is None or not route:
            return self.summary.window.requests if self.summary else 1
        return self._estimated(tuple(facts for facts in self.summary.requests if facts.route == route))

    def _estimated(self, some: tuple[RequestFacts, ...]) -> int:
        """Return how many requests of the window ``some`` of the kept ones stand for."""
        if self.summary is None or not self.summary.requests:
            return 1
        return max(round(self.summary.window.requests * len(some) / len(self.summary.requests)), 1)

    @property
    def factor(self) -> float:
        """What to multiply traced milliseconds with to get untraced ones."""
        return self.summary.window.untraced_factor if self.summary else 1.0

    def untraced(self, traced_ms: float) -> float:
        """Return untraced milliseconds for traced ones of dispatch: work of the host with one event after another."""
        return traced_ms * self.factor

    def untraced_wall(self, traced_ms: float) -> float:
        """Return the untraced wall time of a request, in milliseconds.

        The profiler costs a request what it costs its events: about as much for a slow request as for the median one,
        whose cost the factor tells. A collection or a blocking call inside is not slowed at all.
        """
        usual = self._usual_wall_ms()
        if 0 < usual < traced_ms:
            return traced_ms - usual * (1 - self.factor)
        return traced_ms * self.factor

    @property
    def device_lane_missing(self) -> bool:
        """True where kernel records of launched work are missing, so that nothing may be said of the device."""
        if self.summary is None:
            return False
        device = self.summary.device
        launched = device.launches + device.graph_launches
        return launched > 0 and (device.kernels == 0 or self.kernels_missing > MAX_MISSING * launched)

    @property
    def kernels_missing(self) -> int:
        """How many launches have lost their kernel. Kernels that only lack the link to their launch are there."""
        device = self.summary.device if self.summary else DeviceFacts()
        if device.graph_launches:
            return device.launches_without_kernel
        return min(device.launches_without_kernel, max(device.launches - device.kernels, 0))

    @property
    def host_lane_missing(self) -> bool:
        """True where nothing tells what the host did."""
        return self.summary is None or not HOST_LANES.intersection(self.summary.window.lanes)

    @property
    def launches_unseen(self) -> bool:
        """True where work was launched by threads of which nothing else was recorded.

        A profiler that was started on another thread, or without the activity of the CPU, records launches and kernels
        alone: what the host does between two launches is not known then, so no idle time of the device is put down to
        it. Stack samples and Python frames would tell.
        """
        if self.summary is None or {"samples", "python"}.intersection(self.summary.window.lanes):
            return False
        counts = {caveat.code: caveat.count for caveat in self.summary.window.caveats}
        device = self.summary.device
        blind = counts.get("ops_missing_on_thread", 0)
        return "no_operators" in counts or blind * 2 > device.launches + device.graph_launches

    @property
    def lone_step(self) -> bool:
        """True where the trace holds one single profiler step.

        Such a step begins where a script called ``step()``, not where a request came in: its edges are those of a
        recording, as a window's are. What precedes its first launch may be the input of each request, or of this script
        alone; steps that follow each other would show whether it recurs. A request that was marked as one says so.
        """
        window = self.summary.window if self.summary else None
        return window is not None and window.basis == "step" and window.requests + window.requests_cut == 1

    @property
    def noun(self) -> str:
        """What the figures of the window refer to: ``request``, ``step`` or ``window``."""
        return NOUNS.get(self.summary.window.basis, "request") if self.summary else "request"

    def route_of(self, starts_ms: tuple[float, ...], count: int) -> str:
        """Return the route into whose requests all ``count`` occurrences fall; "" for the only one, and if not known.

        ``starts_ms`` are moments of them, the longest first. Where some are not listed, or fall into no request that
        is known, the longest say nothing of those: a busy route's collections are longer than a quiet one's.
        """
        if self.summary is None or len(self.routes) < 2 or count > len(starts_ms):
            return ""
        hit = [{facts.route for facts in self.summary.requests if _holds(facts, (start,))} for start in starts_ms]
        routes = set[str]().union(*hit)
        return routes.pop() if len(routes) == 1 and all(hit) else ""

    def per(self, affected: int, *, route: str = "") -> str:
        """Say in how many of the requests: ``in every request``, ``in 1 of 16 requests``, ``in this window``.

        ``route`` is the one that all of them are of, where several are served and it is known (`route_of`).
        """
        if self.noun == "window":
            return "in this window"
        whole = self.count_of(route)
        of = f" of {route}" if route else ""
        if affected >= whole:
            return f"in every {self.noun}{of}" if whole > 1 else f"in the {self.noun}{of}"
        return f"in {affected} of {whole} {self.noun}s{of}"

    def wall_ms(self, starts_ms: tuple[float, ...] = (), affected: int = 0) -> float:
        """Return the untraced wall time of the affected requests, in milliseconds.

        ``starts_ms`` are moments inside them. Where every request is affected, or no moment falls into a known one,
        it is that of the median request.
        """
        if self.summary is None:
            return 0.0
        some = 0 < affected < self.summary.window.requests
        hit = [facts.wall_ms for facts in self.summary.requests if _holds(facts, starts_ms)] if some else []
        wall = statistics.median(hit) if hit else self._usual_wall_ms()
        return self.untraced_wall(wall or self.summary.window.duration_ms)

    def wall_with_ms(self, cost_ms: float, affected: int) -> float:
        """Return the wall time of requests that pay ``cost_ms``, where nothing tells which they are.

        Where most pay, the median request holds it; a few that pay take the median and what they pay.
        """
        usual = self.wall_ms()
        most = self.summary is not None and affected * 2 > self.summary.window.requests
        return max(usual, cost_ms) if most else usual + cost_ms

    def busy_share(self) -> float:
        """Return the share of a usual request in which a device works, 0 to 1: by the medians of both, untraced."""
        return self._share([facts.device_busy_ms for facts in self.main], self.wall_ms())

    def wait_share(self) -> float:
        """Return the share of a usual request in which its host waits for the device, 0 to 1."""
        return self._share([facts.wait_ms for facts in self.main], self.wall_ms())

    def bound_share(self) -> tuple[float, str]:
        """Return the share by which the device is judged to be the limit, 0 to 1, and what it is a share of, in words.

        Of marked requests it is `busy_share`. Where nothing marks them, what lies before the first piece of work and
        after the last is the edge of a recording, and left out if most of the window remains; so is what precedes the
        first launch of a `lone_step`.
        """
        summary = self.summary
        if summary is None:
            return 0.0, self.noun
        busy = [facts.device_busy_ms for facts in self.main]
        span = summary.device.busy_ms + summary.device.idle_ms
        if self.noun == "window" and summary.device.kernels > 1 and 2 * span >= summary.window.duration_ms:
            return summary.device.busy_ms / span, "time from its first to its last piece of work"
        lead = sum(gap.per_request_ms for gap in summary.gaps if gap.leading) if self.lone_step else 0.0
        if lead > 0:
            return self._share(busy, self.wall_ms() - lead), "step from its first launch on"
        return self.busy_share(), self.noun

    def _usual_wall_ms(self) -> float:
        if self.main:
            return statistics.median(facts.wall_ms for facts in self.main)
        return self.summary.request_p50_ms if self.summary else 0.0

    @staticmethod
    def _share(parts_ms: list[float], wall_ms: float) -> float:
        return min(statistics.median(parts_ms) / wall_ms, 1.0) if parts_ms and wall_ms > 0 else 0.0

    def median_request(self) -> RequestFacts | None:
        """Return the facts of the request whose wall time is the median, None where there are none."""
        if not self.main:
            return None
        ranked = sorted(self.main, key=lambda facts: facts.wall_ms)
        return ranked[(len(ranked) - 1) // 2]


def _holds(facts: RequestFacts, starts_ms: tuple[float, ...]) -> bool:
    return any(facts.start_ms - ROUNDED_MS <= start < facts.start_ms + facts.wall_ms for start in starts_ms)
