"""What goes wrong in a series: spikes, rising tails and level shifts. Labels come from here and from nowhere else.

A spike takes at least three times the level of that moment, and at least ten milliseconds more than it. From that bar
up to thirty times the bar the sizes are drawn evenly on a logarithmic scale, so a fifth of them lie within twice the
bar. There are single ones; stretches in which one request in 20 to 100 is one; and clusters of 3 to 10 almost in a row.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from series.scenarios import Noise, Scenario, healthy, microseconds
from series.values import CLUSTER, RECURRING, SHIFT, SINGLE, SPIKE, TAIL, Draws, Floats, Label, Series

TIMES = 3.0
OVER_MS = 10.0
INJECTED = "injected"
"""The stream of the noise into which something is injected."""
_LEAST, _MOST = 1.02, 30.0
"""The size of a spike, in bars."""
_STRETCHES = 3
_CLUSTER_EVERY = 18_000
_SHIFT_REQUESTS = 60_000
_TAIL_REQUESTS = 12_000
_TAIL_WIDENS = 2.5


def pair(scenario: Scenario, seed: int) -> tuple[Series, Series]:
    """Return a healthy series and an injected one.

    Their noise is drawn apart: false alarms of both may be counted, and none is the other's over again.
    """
    return healthy(scenario, seed)[0], injected(scenario, seed)


def injected(scenario: Scenario, seed: int) -> Series:
    """Return a healthy series of its own after all that was injected into it."""
    untouched, noise = healthy(scenario, seed, INJECTED)
    draws = Draws(scenario.name, seed, "what goes wrong")
    labels = _shifts(scenario, draws, noise) + _tails(scenario, draws, noise)
    patterns = _spikes(scenario, draws)
    patterns = {index: pattern for index, pattern in patterns.items() if not (len(noise.cold) and noise.cold[index])}
    latency_ms = noise.level_ms * noise.ratio
    chosen = np.array(sorted(patterns), dtype=np.int64)
    sizes = _LEAST * (_MOST / _LEAST) ** draws.uniform(len(chosen))
    latency_ms[chosen] = np.maximum(latency_ms[chosen], bar_ms(noise.level_ms[chosen]) * sizes)
    labels += [Label(SPIKE, int(index), int(index), patterns[int(index)]) for index in chosen]
    return dataclasses.replace(
        untouched, latency_us=microseconds(latency_ms), level_ms=noise.level_ms, labels=tuple(labels)
    )


def bar_ms(level_ms: Floats) -> Floats:
    """The least latency of a spike at this level."""
    return np.maximum(TIMES * level_ms, level_ms + OVER_MS)


def _spikes(scenario: Scenario, draws: Draws) -> dict[int, str]:
    """Which requests become spikes, and in which pattern; where two meet, the first stays."""
    quiet, count = scenario.quiet, scenario.count
    chosen: dict[int, str] = {}
    for _ in range((count - quiet) // scenario.single_every):
        chosen.setdefault(draws.whole(quiet, count), SINGLE)
    for _ in range((count - quiet) // _CLUSTER_EVERY):
        index = draws.whole(quiet, count - 100)
        for _ in range(draws.whole(3, 11)):
            chosen.setdefault(index, CLUSTER)
            index += draws.whole(1, 4)
    for _ in range(_STRETCHES):
        first = draws.whole(quiet, count - scenario.stretch)
        one_in = draws.whole(20, 101)
        for offset in np.flatnonzero(draws.uniform(scenario.stretch) < 1.0 / one_in):
            chosen.setdefault(first + int(offset), RECURRING)
    return chosen


def _shifts(scenario: Scenario, draws: Draws, noise: Noise) -> list[Label]:
    """Raise the level to 2.5 to 4 times itself for ten minutes, each time in its own part of the series."""
    labels = []
    noise.level_ms = noise.level_ms.copy()
    for first, last in _stretches(scenario, draws, scenario.shifts, _SHIFT_REQUESTS):
        noise.level_ms[first : last + 1] *= draws.between(2.5, 4.0)
        labels.append(Label(SHIFT, first, last))
    return labels


def _tails(scenario: Scenario, draws: Draws, noise: Noise) -> list[Label]:
    """Let the slower half of the requests become slower and slower for two minutes; the median stays."""
    labels = []
    noise.ratio = noise.ratio.copy()
    for first, last in _stretches(scenario, draws, scenario.tails, _TAIL_REQUESTS):
        widened = 1.0 + _TAIL_WIDENS * np.linspace(0.0, 1.0, last + 1 - first)
        part = noise.ratio[first : last + 1]
        noise.ratio[first : last + 1] = np.where(part > 1.0, part**widened, part)
        labels.append(Label(TAIL, first, last))
    return labels


def _stretches(scenario: Scenario, draws: Draws, number: int, requests: int) -> list[tuple[int, int]]:
    """``number`` stretches that do not meet."""
    found = []
    for part in range(number):
        share = (scenario.count - scenario.quiet) // number
        first = scenario.quiet + part * share + draws.whole(0, share - requests)
        found.append((first, first + requests - 1))
    return found
