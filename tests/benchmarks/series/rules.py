"""What flags requests: this repository's detector, simple rules that people use, and the best that one limit can do.

Each takes a series and judges every request from earlier ones alone. The ceiling is the exception: it is told the
truth, to show what could be had.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

import numpy as np
from midwatch.detect.detector import RouteDetector, Verdict
from series.scenarios import Scenario, healthy
from series.score import PER_HOUR
from series.values import Answer, Bools, Floats, Series

Rule = Callable[[Series], Answer]

_FIRST_US = 300_000_000
_WINDOW_US = 300_000_000
_EACH_US = 1_000_000
_LEAST_SEEN = 100


def midwatch(series: Series) -> Answer:
    """The detector of the agent, with the agent's defaults; of requests in the order of arrival."""
    detector = RouteDetector()
    shapes = (f"batch={shape}" for shape in series.shapes.tolist()) if len(series.shapes) else repeat("")
    flags = np.zeros(len(series), dtype=np.bool_)
    told = []
    for number, (latency_us, shape) in enumerate(zip(series.latency_us.tolist(), shapes, strict=False)):
        judgement = detector.judge(latency_us * 1000, shape=shape)
        flags[number] = judgement.verdict is Verdict.SPIKE
        if judgement.event is not None:
            told.append((judgement.event.value, number))
    return Answer(flags, tuple(told))


def fixed(series: Series) -> Answer:
    """Over twice the p99 of the first five minutes, silent until then: somebody looked at a dashboard once."""
    learnt = int(np.searchsorted(series.at_us, _FIRST_US))
    flags = series.latency_us > 2.0 * np.quantile(series.latency_us[: max(learnt, 1)], 0.99)
    flags[:learnt] = False
    return Answer(flags)


def mean_three_sigma(series: Series) -> Answer:
    """Over the mean and three standard deviations of the last five minutes."""
    latency_ms = series.latency_ms
    sums = np.concatenate([[0.0], np.cumsum(latency_ms)])
    squares = np.concatenate([[0.0], np.cumsum(latency_ms**2)])
    last = np.arange(len(series))
    first = np.searchsorted(series.at_us, series.at_us - _WINDOW_US)
    seen = np.maximum(last - first, 1)
    mean = (sums[last] - sums[first]) / seen
    variance = np.maximum((squares[last] - squares[first]) / seen - mean**2, 0.0)
    return Answer((seen >= _LEAST_SEEN) & (latency_ms > mean + 3.0 * np.sqrt(variance)))


def p99(series: Series) -> Answer:
    """Over the p99 of the last five minutes, worked out each second: one request in a hundred, by its making."""
    return Answer(series.latency_us > _window_p99_us(series))


def twice_p99(series: Series) -> Answer:
    """Over twice the p99 of the last five minutes, worked out each second."""
    return Answer(series.latency_us > 2.0 * _window_p99_us(series))


RULES: dict[str, Rule] = {
    "midwatch": midwatch,
    "fixed, 2 x first p99": fixed,
    "mean + 3 sigma, 5 min": mean_three_sigma,
    "p99, 5 min": p99,
    "2 x p99, 5 min": twice_p99,
}
CEILING = "ceiling"
LIMIT_HOURS = 8


def noise_limit(scenario: Scenario) -> float:
    """Return how many times the true level healthy requests exceed once in an hour's worth of requests.

    Taken from `LIMIT_HOURS` of noise that is in none of the scored series: of n ordered numbers the k-th from above is
    exceeded k times, on average, by n others.
    """
    wanted, ratios = LIMIT_HOURS * PER_HOUR, []
    for number in range(-(-wanted // scenario.count)):
        series, _ = healthy(scenario, number, "limit")
        ratios.append(series.latency_ms / series.level_ms)
    whole = np.concatenate(ratios)
    rank = len(whole) // PER_HOUR
    return float(np.partition(whole, -rank)[-rank])


def ceiling(series: Series, limit: float) -> Bools:
    """Over ``limit`` times the true level: the best of all rules that hold a request against one limit."""
    return np.asarray(series.latency_ms / series.level_ms > limit, dtype=np.bool_)


def _window_p99_us(series: Series) -> Floats:
    """For each request the p99 of the five minutes before the second it arrived in; endless while few were seen."""
    starts_us = np.arange(0, int(series.at_us[-1]) + _EACH_US, _EACH_US)
    bounds = np.searchsorted(series.at_us, starts_us)
    limits = np.full(len(series), np.inf)
    firsts = np.searchsorted(series.at_us, starts_us - _WINDOW_US)
    for first, bound, end in zip(firsts, bounds, np.append(bounds[1:], len(series)), strict=True):
        if bound - first >= _LEAST_SEEN and end > bound:
            rank = (bound - first) * 99 // 100
            limits[bound:end] = np.partition(series.latency_us[first:bound], rank)[rank]
    return limits
