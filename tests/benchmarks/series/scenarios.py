"""Healthy services: what their latencies do when nothing is wrong.

Each scenario gives, for every request, a level (the true median at that moment) and the ratio of its latency to the
level, whose median is 1. Whatever this module makes is healthy, however slow: no label ever comes from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from series.values import Bools, Draws, Floats, Ints, Series

NO_SHAPES: Ints = np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class Noise:
    """Of ``count`` requests. ``busy`` multiplies the rate of arrival; ``cold`` are first requests of a new shape."""

    level_ms: Floats
    ratio: Floats
    busy: Floats
    shapes: Ints = field(default_factory=lambda: NO_SHAPES)
    cold: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))


Maker = Callable[[Draws, int], Noise]


@dataclass(frozen=True, slots=True)
class Scenario:
    """``count`` requests at about ``rate`` a second; nothing is injected into the first ``quiet`` ones.

    The quiet time is five minutes, so that rules that learn from the first minutes learn from healthy ones. One single
    spike is injected in ``single_every`` requests; the recurring ones fill three stretches of ``stretch`` requests.
    """

    name: str
    make: Maker
    count: int = 360_000
    rate: float = 100.0
    quiet: int = 30_000
    single_every: int = 6_000
    stretch: int = 6_000
    shifts: int = 0
    tails: int = 0


def healthy(scenario: Scenario, seed: int, stream: str = "healthy") -> tuple[Series, Noise]:
    """Return an untouched series, and what it was made of; each ``stream`` gives another one."""
    noise = scenario.make(Draws(scenario.name, seed, f"{stream} noise"), scenario.count)
    gaps_s = Draws(scenario.name, seed, f"{stream} arrivals").exponential(scenario.count) / (scenario.rate * noise.busy)
    at_us = np.cumsum(np.maximum(1, np.rint(gaps_s * 1e6)).astype(np.int64))
    return Series(scenario.name, at_us, microseconds(noise.level_ms * noise.ratio), noise.level_ms, noise.shapes), noise


def microseconds(latency_ms: Floats) -> Ints:
    """Round to whole microseconds."""
    return np.rint(latency_ms * 1e3).astype(np.int64)


def _flat(level_ms: float, sigma: float) -> Maker:
    """One level, log-normal about it."""

    def make(draws: Draws, count: int) -> Noise:
        return Noise(np.full(count, level_ms), np.exp(sigma * draws.normal(count)), np.ones(count))

    return make


def _bimodal(draws: Draws, count: int) -> Noise:
    """One request in seven misses a cache and takes seven times as long."""
    slow_share, slow_times, sigma = 1 / 7, 7.0, 0.12
    median = float(np.exp(sigma * NormalDist().inv_cdf(0.5 / (1 - slow_share))))
    mode = np.where(draws.uniform(count) < slow_share, slow_times, 1.0)
    ratio = mode * np.exp(sigma * draws.normal(count)) / median
    return Noise(np.full(count, 8.0 * median), ratio, np.ones(count))


def _diurnal(draws: Draws, count: int) -> Noise:
    """A day and night of one hour, 24 times as fast as the real ones: load and latency rise and fall together."""
    day = np.sin(2.0 * np.pi * (np.arange(count) / count + draws.between(0.0, 1.0)))
    return Noise(18.0 * np.exp(0.45 * day), np.exp(0.2 * draws.normal(count)), 1.0 + 0.6 * day)


def _drifting(draws: Draws, count: int) -> Noise:
    """Four times as slow after an hour, at an even pace: a cache that fills, a table that grows."""
    level_ms = 10.0 * 4.0 ** (np.arange(count) / count)
    return Noise(level_ms, np.exp(0.2 * draws.normal(count)), np.ones(count))


def _small_steps(draws: Draws, count: int) -> Noise:
    """Six steps of up to a third about one level, as a new version or another mix of callers makes them."""
    level_ms = np.full(count, 15.0)
    for _ in range(6):
        level_ms[draws.whole(0, count) :] = 15.0 * draws.between(0.8, 1.35)
    return Noise(level_ms, np.exp(0.15 * draws.normal(count)), np.ones(count))


def _bursts(draws: Draws, count: int) -> Noise:
    """Twenty times an hour the load trebles for 3 to 15 seconds' worth of requests, and they wait for each other."""
    wait, load = np.zeros(count), np.zeros(count)
    for _ in range(20):
        length = draws.whole(300, 1500)
        first = draws.whole(0, count - length)
        rise = 1.0 - np.abs(np.linspace(-1.0, 1.0, length))
        wait[first : first + length] = draws.between(0.2, 0.8) * rise
        load[first : first + length] = rise
    return Noise(20.0 * (1.0 + wait), np.exp(0.2 * draws.normal(count)), 1.0 + 2.0 * load)


def _cold_start(draws: Draws, count: int) -> Noise:
    """The first call takes thirty times as long and the next ones less and less; caches warm for some minutes."""
    number = np.arange(count)
    level_ms = 20.0 * (1.0 + np.exp(-number / 10_000.0)) * (1.0 + 30.0 * np.exp(-number / 8.0))
    return Noise(level_ms, np.exp(0.2 * draws.normal(count)), np.ones(count))


def _new_shapes(draws: Draws, count: int) -> Noise:
    """Eight shapes, each half as dear again as the one before; a new one now and then, cold in its first request."""
    known, late, late_share = 8, 12, 0.02
    costs_ms = np.concatenate([6.0 * 1.5 ** np.arange(known), 6.0 + 94.0 * draws.uniform(late)])
    shapes = (draws.uniform(count) ** 2 * known).astype(np.int64)
    cold = np.zeros(count, dtype=np.bool_)
    for shape in range(known, known + late):
        appears = draws.whole(0, count)
        chosen = draws.uniform(count - appears) < late_share
        chosen[0] = True
        shapes[appears:][chosen] = shape
        cold[appears] = True
    level_ms = costs_ms[shapes] * np.where(cold, 6.0, 1.0)
    return Noise(level_ms, np.exp(0.15 * draws.normal(count)), np.ones(count), shapes, cold)


SCENARIOS = (
    Scenario("steady", _flat(20.0, 0.12)),
    Scenario("heavy-tailed", _flat(20.0, 0.6)),
    Scenario("bimodal", _bimodal),
    Scenario("diurnal", _diurnal),
    Scenario("drifting", _drifting),
    Scenario("level-shift", _small_steps, shifts=2),
    Scenario("rising-tail", _flat(12.0, 0.2), tails=3),
    Scenario("bursts", _bursts),
    Scenario("low-traffic", _flat(40.0, 0.3), 43_200, 1.0, 300, single_every=600, stretch=2_000),
    Scenario("cold-start", _cold_start, 90_000, quiet=6_000),
    Scenario("new-shapes", _new_shapes),
)
"""An hour each at 100 requests a second; half a day at one a second where traffic is low; a quarter of an hour of a
cold start, which is over by then."""
