"""Watches requests while they run: one that is overdue is looked at until it ends.

The thread blocks while nothing is in flight. Otherwise it sleeps to the earliest deadline in flight, 50 ms at most.
The look at the deadline has to be prompt: where C code holds the GIL, it is the only one that gets through before the
request ends, so it is taken before anything else is done.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

from midwatch.clock import Clock
from midwatch.guard import guard
from midwatch.lifecycle import Worker
from midwatch.watch.frames import Frames, current_frames
from midwatch.watch.lockprobe import LockProbe
from midwatch.watch.lockwaits import LockWaits
from midwatch.watch.looks import Evidence, Looks
from midwatch.watch.pace import Pace
from midwatch.watch.protocols import InFlight, Tracker
from midwatch.watch.stacks import Stack, Stacks
from midwatch.watch.threads import is_own

_LONGEST_SLEEP_NS = 50_000_000
_PARK_S = 0.5
_OTHERS_NS = 20_000_000
"""Between two looks at all threads of the process."""
_OTHERS_DEPTH = 12
_MAX_OWN = 16
_MAX_OTHERS = 64
_ERROR_PAUSE_NS = 1_000_000_000

PARKED = -1
"""Nothing is in flight: block until something is."""


class Watchdog:
    """Looks at overdue requests. `evidence` tells what was seen of one of them.

    Args:
        tracker: the requests in flight.
        stacks: walks and names frames; shared with the other samplers.
        probe: finds locks and their holders.
        clock: the time.
        tick_ms: time between looks right after a deadline.
        redact: whether names of threads are hidden.
        frames: what gives the innermost frame of each thread.
    """

    def __init__(
        self,
        tracker: Tracker,
        stacks: Stacks,
        probe: LockProbe,
        clock: Clock,
        *,
        tick_ms: float = 2.0,
        redact: bool = False,
        frames: Frames = current_frames,
    ) -> None:
        self._tracker = tracker
        self._stacks = stacks
        self._clock = clock
        self._frames = frames
        self._pace = Pace(int(tick_ms * 1_000_000))
        self._looks = Looks(stacks, clock, redact=redact)
        self._locks = LockWaits(stacks, probe, clock, redact=redact, frames=frames)
        self._worker = Worker("midwatch-watchdog", self._run)
        self._planned_ns = 0
        self._next_look_ns = 0
        self._next_others_ns = 0

    def start(self) -> None:
        """Start watching."""
        # Name a stack once, so that the first one that matters need not ask for folders and modules.
        self._stacks.look(self._frames().get(threading.get_ident()), 4)
        self._worker.start()

    def stop(self) -> None:
        """Stop watching. What was seen can still be asked for."""
        self._worker.stop(wake=self._tracker.wake)

    def evidence(self, request_id: int) -> Evidence:
        """Return what was seen of a request, finished or not; nothing where it was never seen overdue."""
        watched = self._looks.watched(request_id)
        if watched is None:
            return Evidence()
        samples = self._looks.samples(request_id, watched)
        idents = {watched.ident} | {sample.thread_ident for sample in samples if sample.role == "unit"}
        return Evidence(samples, self._locks.between(watched.start_ns, watched.until_ns, idents))

    def turn(self) -> int:
        """Look once where a request is overdue; return how many ns to sleep, or `PARKED`."""
        now_ns = self._clock.perf_ns()
        flying = self._tracker.in_flight()
        overdue = [request for request in flying if 0 < request.deadline_ns <= now_ns]
        if overdue:
            self._follow(overdue, now_ns, self._late_ns(flying, now_ns))
        elif self._next_look_ns:
            self._calm_down()
        self._pace.account(now_ns, self._clock.cpu_ns())
        if not flying:
            self._planned_ns = 0
            return PARKED
        due_ns = min([self._next_look_ns or now_ns + _LONGEST_SLEEP_NS, *_deadlines_after(now_ns, flying)])
        self._planned_ns = max(due_ns, now_ns + self._pace.floor_ns(calm=not overdue))
        return max(0, self._planned_ns - self._clock.perf_ns())

    def _late_ns(self, flying: Sequence[InFlight], now_ns: int) -> int:
        """Return by how much this turn came later than planned. A parked watchdog is woken when a request begins."""
        planned_ns = self._planned_ns or min(request.start_ns for request in flying)
        return max(0, now_ns - planned_ns)

    def _follow(self, overdue: Sequence[InFlight], now_ns: int, late_ns: int) -> None:
        """Look at overdue requests, unless all of them were looked at a short while ago."""
        if now_ns >= self._next_look_ns or any(self._looks.watched(r.request_id) is None for r in overdue):
            own = _own_threads(overdue)
            stacks = self._look_at(own, now_ns, late_ns, unit=False)
            for request in overdue:
                self._looks.overdue(request, now_ns)
            # What was seen is on record: from here on things are named, which takes longer.
            self._look_around(overdue, stacks, now_ns, late_ns)
            latest_ns = max(request.deadline_ns for request in overdue)
            self._next_look_ns = now_ns + self._pace.looking_ns(now_ns - latest_ns)

    def _look_at(
        self, since_ns: Mapping[int, int], now_ns: int, late_ns: int, *, unit: bool
    ) -> dict[int, tuple[Stack, int]]:
        """Take the stacks of threads, each with the time from which it counts. Frames are held no longer than this."""
        frames = self._frames()
        stacks = {}
        for ident, start_ns in since_ns.items():
            stack = self._stacks.walk(frames.get(ident))
            before_ns = self._looks.add(ident, stack, now_ns, late_ns, unit=unit)
            stacks[ident] = stack, max(before_ns, start_ns)
        return stacks

    def _look_around(
        self, overdue: Sequence[InFlight], stacks: dict[int, tuple[Stack, int]], now_ns: int, late_ns: int
    ) -> None:
        """Look at the threads that the requests wait for, at locks, and now and then at everybody else."""
        waits = any(stack and stack[0].idle for stack, _ in stacks.values())
        if waits or any(request.is_async for request in overdue):
            units = [ident for ident in self._tracker.unit_threads() if ident not in stacks][:_MAX_OWN]
            begun_ns = min(request.start_ns for request in overdue)
            stacks = stacks | self._look_at(dict.fromkeys(units, begun_ns), now_ns, late_ns, unit=True)
        for ident, (stack, since_ns) in stacks.items():
            self._locks.looked(ident, stack, since_ns, now_ns)
        if now_ns >= self._next_others_ns:
            self._next_others_ns = now_ns + _OTHERS_NS
            self._look_at_others(stacks, now_ns)

    def _look_at_others(self, seen: Collection[int], now_ns: int) -> None:
        frames = self._frames()
        others = [ident for ident in frames if ident not in seen and not is_own(ident)]
        for ident in others[:_MAX_OTHERS]:
            self._looks.add(ident, self._stacks.walk(frames[ident], _OTHERS_DEPTH), now_ns, 0, unit=False)

    def _calm_down(self) -> None:
        """Nothing is overdue any more: end what was being followed."""
        self._next_look_ns = self._next_others_ns = 0
        self._locks.finish()
        self._looks.forget_threads()

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            pause_ns = guard.call("watchdog", self.turn, default=_ERROR_PAUSE_NS)
            if pause_ns == PARKED:
                self._tracker.wait_for_request(_PARK_S)
            elif pause_ns > 0:
                self._clock.wait(stop, pause_ns / 1e9)


def _deadlines_after(now_ns: int, flying: Sequence[InFlight]) -> list[int]:
    return [request.deadline_ns for request in flying if request.deadline_ns > now_ns]


def _own_threads(overdue: Sequence[InFlight]) -> dict[int, int]:
    """Return the threads of the overdue requests, each with the earliest begin; the latest overdue go first."""
    own: dict[int, int] = {}
    for request in sorted(overdue, key=lambda request: request.deadline_ns, reverse=True):
        if request.thread_ident in own or len(own) < _MAX_OWN:
            own[request.thread_ident] = min(own.get(request.thread_ident, request.start_ns), request.start_ns)
    return own
