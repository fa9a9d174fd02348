"""The agent's background thread: it digests finished requests, ticks the sensors, and does what is due."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from midwatch.clock import Clock
from midwatch.guard import guard
from midwatch.manners import AtLeisure

_REST_NS = 20_000_000
"""At most fifty turns a second, also where every request is overdue: the service needs the GIL more than we do."""
_TOGETHER_NS = 20_000_000
"""What is due so soon is done in the same turn: to wake up once more would cost as much as what is done."""
_DIGEST_NS, _DENSEST_NS = 1_000_000_000, 50_000_000
"""Deadlines are learnt, and spikes without a deadline found, within this time."""
_AT_ONCE = 4_000
"""Finished requests that may wait for one digest."""


class Ticking(Protocol):
    """A sensor that looks at something from time to time."""

    name: str
    period_s: float
    """How often it wants to be ticked, in seconds, as things are; 0.0, at the beginning, for never."""

    def tick(self, now_ns: int) -> None:
        """Look; ``now_ns`` is the monotonic time."""
        ...


@dataclass(slots=True)
class Chore:
    """Something else that has to be done from time to time."""

    name: str
    period_s: float
    work: Callable[[int], object]

    def tick(self, now_ns: int) -> None:
        """Do it."""
        self.work(now_ns)


@dataclass(slots=True)
class _Due:
    place: str
    what: Ticking
    at_ns: int = 0


class Sampler:
    """One turn at a time: wait until a request was overdue or something is due, then do it."""

    def __init__(
        self,
        clock: Clock,
        *,
        wake: threading.Event,
        give_way: AtLeisure,
        digest: Callable[[Callable[[], None]], int],
        chores: Sequence[Chore],
        sensors: Sequence[Ticking],
    ) -> None:
        self._clock = clock
        self._wake = wake
        self._give_way = give_way
        self._digest = digest
        self._dues = [_Due(f"sensor.{sensor.name}", sensor) for sensor in sensors if sensor.period_s > 0]
        self._dues += [_Due(f"sampler.{chore.name}", chore) for chore in chores]
        self._turned_ns = 0
        self._digest_ns = _DENSEST_NS
        """Until the next digest."""

    def run(self, stop: threading.Event) -> None:
        """Take turns until ``stop`` is set (set ``wake`` too)."""
        while not stop.is_set():
            self._clock.wait(self._wake, self._left_s())
            rest_ns = self._turned_ns + _REST_NS - self._clock.perf_ns()
            if rest_ns > 0:
                self._clock.wait(stop, rest_ns / 1e9)
            overdue = self._wake.is_set()
            self._wake.clear()  # one that comes from here on is urgent to whoever gives way
            self.turn(self._clock.perf_ns(), hurried=overdue)

    def turn(self, now_ns: int, *, hurried: bool = False) -> None:
        """Do what is due; ``hurried`` where a request was overdue, and somebody will want to know why."""
        since_ns, self._turned_ns = now_ns - self._turned_ns, now_ns
        give_way, soon_ns = self._give_way, now_ns + _TOGETHER_NS
        give_way.begin(hurried=hurried)
        digested = guard.call("sampler.digest", self._digest, give_way, default=0)
        self._digest_ns = _DIGEST_NS
        if digested:
            self._digest_ns = min(max(since_ns * _AT_ONCE // digested, _DENSEST_NS), _DIGEST_NS)
        for due in self._dues:
            if soon_ns >= due.at_ns:
                give_way()
                guard.call(due.place, due.what.tick, self._clock.perf_ns(), default=None)
                due.at_ns = now_ns + int(due.what.period_s * 1e9)

    def _left_s(self) -> float:
        now_ns = self._clock.perf_ns()
        due_ns = min([self._turned_ns + self._digest_ns, *(due.at_ns for due in self._dues)])
        return max(0.0, (due_ns - now_ns) / 1e9)
