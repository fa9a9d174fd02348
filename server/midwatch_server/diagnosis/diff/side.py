"""One side of a comparison: a report, narrowed to the requests that are compared, with their figures as lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from midwatch.model.trace import RequestFacts, TraceSummary

from midwatch_server.diagnosis.diff.values import SideFacts
from midwatch_server.diagnosis.evidence import HARDLY_SLOWED, Evidence
from midwatch_server.diagnosis.report import Report


@dataclass(frozen=True)
class Side:
    """What is compared of one report; figures of device work are of ``requests`` and scaled to one of them."""

    report: Report
    summary: TraceSummary
    route: str
    requests: tuple[RequestFacts, ...]

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence of the compared requests alone."""
        return Evidence(summary=replace(self.summary, requests=self.requests))

    @cached_property
    def traced(self) -> list[float]:
        """Traced milliseconds of each request; of a trace without requests, those of the window."""
        return [facts.wall_ms for facts in self.requests] or [self.summary.window.duration_ms]

    @cached_property
    def walls(self) -> list[float]:
        """The same, untraced."""
        return [self.evidence.untraced_wall(wall) for wall in self.traced]

    @property
    def cost_known(self) -> bool:
        """True where the profiler's cost comes from a latency known without it, or was judged to be next to nothing."""
        known = any(caveat.code == "untraced_factor" for caveat in self.summary.window.caveats)
        return known or HARDLY_SLOWED <= self.evidence.factor < 1.0

    @property
    def device_known(self) -> bool:
        """False where records of the device are missing, so that nothing may be said of it."""
        return not self.evidence.device_lane_missing

    def of(self, figure: Callable[[RequestFacts], float]) -> list[float]:
        """Return one figure of each request."""
        return [figure(facts) for facts in self.requests]

    @cached_property
    def whole_requests(self) -> float:
        """How many requests' worth of device work the window holds, those cut at its edges counted in part."""
        busy = sorted(self.of(lambda facts: facts.device_busy_ms))
        median = busy[len(busy) // 2] if busy else 0.0
        counted = max(self.summary.window.requests, 1)
        return max(self.summary.device.busy_ms / median, 1.0) if median > 0 else float(counted)

    def facts(self, label: str) -> SideFacts:
        """Return what stands for this side in the document."""
        summary, resource = self.summary, self.report.resource
        return SideFacts(
            label=label,
            route=self.route,
            requests=len(self.requests),
            basis=summary.window.basis,
            factor=summary.window.untraced_factor,
            verdict=self.report.diagnosis.verdict.value,
            torch=summary.torch or (resource.torch if resource else ""),
            cuda=summary.cuda or (resource.cuda if resource else ""),
            devices=tuple(dict.fromkeys(summary.device.names)),
            lanes=summary.window.lanes,
            inputs=self.inputs,
            service=resource.service if resource else "",
            service_version=resource.service_version if resource else "",
        )

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Shapes, dtypes and devices that the requests worked on, as far as they were noted."""
        noted = tuple(dict.fromkeys(facts.workload for facts in self.requests if facts.workload))
        return noted or self.report.workload.inputs


def sides(a: Report, b: Report) -> tuple[Side, Side]:
    """Return both sides, narrowed to one route: the one that most time goes to of those that both serve.

    Raises:
        ValueError: One of them has no window; a sentence for people.
    """
    first, second = _summary("A", a), _summary("B", b)
    spent = [_spent(summary) for summary in (first, second)]
    both = {route: min(spent[0][route], spent[1][route]) for route in spent[0] if route in spent[1]}
    common = max(both, key=lambda route: both[route], default="")
    return _side(a, first, common), _side(b, second, common)


def _summary(name: str, report: Report) -> TraceSummary:
    if report.summary is None:
        raise ValueError(f"{name} has no window, so there is nothing to compare; choose a capture or a trace")
    return report.summary


def _side(report: Report, summary: TraceSummary, common: str) -> Side:
    route = common or next((facts.route for facts in Evidence(summary=summary).main), "")
    mine = [facts for facts in summary.requests if facts.route == route]
    # The slowest is chosen among requests that the profiler left alone: one that took longer was held up by it.
    limit = max((facts.wall_ms for facts in summary.requests if facts.slowest), default=float("inf"))
    fair = [facts for facts in mine if facts.wall_ms <= limit] or mine
    working = [facts for facts in fair if facts.launches or facts.device_busy_ms]
    return Side(report, summary, route, tuple(working or fair))


def _spent(summary: TraceSummary) -> dict[str, float]:
    spent: dict[str, float] = {}
    for facts in summary.requests:
        spent[facts.route] = spent.get(facts.route, 0.0) + facts.wall_ms
    return spent
