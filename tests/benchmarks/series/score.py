"""How well flags agree with labels.

* A spike is found where that very request is flagged.
* A flagged request without a label is a false alarm, however slow it was: labels come from the injected list alone, and
  the tail of healthy noise is not a spike.
* Two kinds of flags are neither. Those within a stretch of rising tail are of that tail. Those among the first
  `SHIFT_REQUESTS` after a level has risen are of that shift, since no rule can know of the first of them that others
  will follow; 300 are the 200 requests that a route has to have before it gets a deadline of its own, and half as many
  to notice in. After that the new level is the normal one, and a flag there is a false alarm.
* A rule that only flags requests does not tell tails and shifts from spikes, and none of them counts as found. A rule
  that does says at which request it told which. A tail is found where one is told before it is over; a shift within
  `TOLD_REQUESTS` of its beginning, half a minute, in which whoever is on call still knows what was just deployed. What
  is told as long after the end of a shift, when the level falls, is no false alarm; any other is one.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from series.values import SHIFT, TAIL, Answer, Bools, Floats, Series

PER_HOUR = 360_000
"""Requests of an hour at 100 a second: alarms are counted in this unit, whatever the rate of the series."""
SHIFT_REQUESTS = 300
TOLD_REQUESTS = 3_000
BANDS = (1.0, 1.5, 3.0, 10.0, math.inf)
"""Sizes of spikes in bars; the bar is three times the level and 10 ms over it."""


@dataclass(slots=True)
class Score:
    """Sums over any number of series. ``clear`` spikes are those that no healthy request comes near once in an hour."""

    spikes: int = 0
    found: int = 0
    clear: int = 0
    clear_found: int = 0
    false_alarms: int = 0
    in_healthy: int = 0
    """False alarms in series without any label."""
    requests: int = 0
    patterns: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Found and all, for each pattern of spikes and each band of sizes."""
    events: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Found and all, of tails and shifts."""
    tells: bool = False
    """Whether the rule tells tails and shifts at all."""

    def add(self, other: Score) -> None:
        """Add another's counts to this one's."""
        self.spikes += other.spikes
        self.found += other.found
        self.clear += other.clear
        self.clear_found += other.clear_found
        self.false_alarms += other.false_alarms
        self.in_healthy += other.in_healthy
        self.requests += other.requests
        self.tells |= other.tells
        for mine, theirs in ((self.patterns, other.patterns), (self.events, other.events)):
            for name, (found, whole) in theirs.items():
                before = mine.get(name, (0, 0))
                mine[name] = (before[0] + found, before[1] + whole)

    @property
    def recall(self) -> float:
        """The share of spikes found; not a number where there were none."""
        return self.found / self.spikes if self.spikes else math.nan

    @property
    def clear_recall(self) -> float:
        """The share of clear spikes found; not a number where there were none."""
        return self.clear_found / self.clear if self.clear else math.nan

    @property
    def alarms_an_hour(self) -> tuple[float, float, float]:
        """False alarms an hour at 100 requests a second, and the 95 % interval about it."""
        hours = self.requests / PER_HOUR
        low, high = poisson_interval(self.false_alarms)
        return self.false_alarms / hours, low / hours, high / hours


def score(series: Series, answer: Answer, *, clear: Bools | None = None, bars: Floats | None = None) -> Score:
    """Hold a rule's answer against the labels.

    Args:
        series: the requests and what was injected.
        answer: what the rule says of them.
        clear: for each request, whether it would be a clear spike.
        bars: for each request, its latency in bars; gives recall by size.
    """
    flags = answer.flags
    spikes = series.spikes()
    unlabelled = ~excused(series)
    unlabelled[spikes] = False
    counted = Score(
        spikes=len(spikes),
        found=int(flags[spikes].sum()),
        false_alarms=int((flags & unlabelled).sum()),
        requests=len(series),
        tells=answer.told is not None,
    )
    _score_events(series, answer.told or (), counted)
    counted.in_healthy = 0 if series.labels else counted.false_alarms
    if clear is not None:
        counted.clear = int(clear[spikes].sum())
        counted.clear_found = int((flags & clear)[spikes].sum())
    for pattern in sorted({one.pattern for one in series.labels if one.pattern}):
        chosen = series.spikes(pattern)
        counted.patterns[pattern] = (int(flags[chosen].sum()), len(chosen))
    if bars is not None:
        for low, high in itertools.pairwise(BANDS):
            chosen = spikes[(bars[spikes] >= low) & (bars[spikes] < high)]
            counted.patterns[_band(low, high)] = (int(flags[chosen].sum()), len(chosen))
    return counted


def _score_events(series: Series, told: tuple[tuple[str, int], ...], counted: Score) -> None:
    """Count the tails and shifts that were found, and what was told where there is none."""
    events = [one for one in series.labels if one.kind in {TAIL, SHIFT}]
    for one in events:
        last = min(one.first + TOLD_REQUESTS - 1, one.last) if one.kind == SHIFT else one.last
        found = any(kind == one.kind and one.first <= index <= last for kind, index in told)
        before = counted.events.get(one.kind, (0, 0))
        counted.events[one.kind] = (before[0] + found, before[1] + 1)
    for kind, index in told:
        after = TOLD_REQUESTS if kind == SHIFT else 0
        counted.false_alarms += not any(kind == one.kind and one.first <= index <= one.last + after for one in events)


def excused(series: Series) -> Bools:
    """The requests whose flags belong to a rising tail or to a shift."""
    mask = np.zeros(len(series), dtype=np.bool_)
    for one in series.labels:
        if one.kind == TAIL:
            mask[one.first : one.last + 1] = True
        elif one.kind == SHIFT:
            mask[one.first : min(one.first + SHIFT_REQUESTS, one.last + 1)] = True
    return mask


def poisson_interval(count: int) -> tuple[float, float]:
    """The 95 % interval of a Poisson mean of which ``count`` were seen, by Byar's approximation.

    The upper end is within 1 % of the exact one, the lower within 0.015. The interval takes alarms for independent of
    each other; where they come in bunches it is too narrow.
    """
    low = count * (1.0 - 1.0 / (9.0 * count) - 1.96 / (3.0 * math.sqrt(count))) ** 3 if count else 0.0
    more = count + 1
    return max(low, 0.0), more * (1.0 - 1.0 / (9.0 * more) + 1.96 / (3.0 * math.sqrt(more))) ** 3


def _band(low: float, high: float) -> str:
    return f"over {low:g} bars" if math.isinf(high) else f"{low:g} to {high:g} bars"
