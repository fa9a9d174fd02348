"""The agent's background thread: it digests finished requests, ticks the sensors, and reports once a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from midwatch.clock import Clock
from midwatch.guard import guard
from midwatch.manners import GiveWay

_SECOND_NS = 1_000_000_000
_REST_NS = 20_000_000
"""At most fifty turns a second, also where every request is overdue: the service needs the GIL more than we do."""
_TOGETHER_NS = 20_000_000
"""What is due so soon is done in the same turn: to wake up once more would cost as much as what is done."""
_DIGEST_NS = 250_000_000
"""Deadlines are learnt, and spikes without a deadline found, within this time."""


class Ticking(Protocol):
    """A sensor that looks at something from time to time."""

    name: str
    period_s: float
    """How often it wants to be ticked, in seconds, as things are; 0.0, at the beginning, for never."""

    def tick(self, now_ns: int) -> None:
        """Look; ``now_ns`` is the monotonic time."""
        ...


class Sampler:
    """One turn at a time: wait until a request was overdue or something is due, then do it."""

    def __init__(
        self,
        clock: Clock,
        *,
        wake: threading.Event,
        digest: Callable[[], None],
        each_second: Sequence[tuple[str, Callable[[int], object]]],
        sensors: Sequence[Ticking],
    ) -> None:
        self._clock = clock
        self._wake = wake
        self._digest = digest
        self._each_second = each_second
        self._sensors = [sensor for sensor in sensors if sensor.period_s > 0]
        self._due_ns = {sensor.name: 0 for sensor in self._sensors}
        self._second_ns = 0
        self._turned_ns = 0

    def run(self, stop: threading.Event) -> None:
        """Take turns until ``stop`` is set (set ``wake`` too)."""
        while not stop.is_set():
            self._clock.wait(self._wake, self._left_s())
            rest_ns = self._turned_ns + _REST_NS - self._clock.perf_ns()
            if rest_ns > 0:
                self._clock.wait(stop, rest_ns / 1e9)
            self._wake.clear()
            self.turn(self._clock.perf_ns())

    def turn(self, now_ns: int) -> None:
        """Do what is due."""
        self._turned_ns = now_ns
        guard.call("sampler.digest", self._digest, default=None)
        give_way, soon_ns = GiveWay(self._clock), now_ns + _TOGETHER_NS
        for sensor in self._sensors:
            if soon_ns >= self._due_ns[sensor.name]:
                give_way()
                guard.call(f"sensor.{sensor.name}", sensor.tick, now_ns, default=None)
                self._due_ns[sensor.name] = now_ns + int(sensor.period_s * 1e9)
        if soon_ns >= self._second_ns:
            self._second_ns = now_ns + _SECOND_NS
            for name, task in self._each_second:
                give_way()
                guard.call(f"sampler.{name}", task, now_ns, default=None)

    def _left_s(self) -> float:
        now_ns = self._clock.perf_ns()
        due_ns = min([self._second_ns, now_ns + _DIGEST_NS, *self._due_ns.values()])
        return max(0.0, (due_ns - now_ns) / 1e9)
