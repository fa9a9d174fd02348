"""Watches requests while they run: one that is overdue is looked at until it ends.

The thread blocks once nothing has been in flight for a while. Otherwise it sleeps to the earliest deadline in flight,
or to the earliest that a request may have which begins now, 50 ms at most, and no more often than `Pace` allows.

The look at the deadline has to be prompt: where C code holds the GIL, it is the only one that gets through before the
request ends, so it is taken before anything else is done.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from types import FrameType

from midwatch.clock import Clock
from midwatch.guard import guard
from midwatch.lifecycle import Worker
from midwatch.watch.cputimes import CpuTimes
from midwatch.watch.frames import Frames, current_frames, look
from midwatch.watch.lockprobe import LockProbe
from midwatch.watch.lockwaits import LockWaits
from midwatch.watch.looks import Evidence, Looks
from midwatch.watch.pace import Pace
from midwatch.watch.protocols import InFlight, Tracker
from midwatch.watch.stacks import Stack, Stacks
from midwatch.watch.threads import is_own

_LONGEST_SLEEP_NS = 50_000_000
_SHORTEST_AHEAD_NS = 10_000_000
_IDLE_TURNS = 20
"""Turns in a row that find nothing in flight before the thread blocks."""
_PARK_S = 0.5
_OTHERS_NS = 20_000_000
"""Between two looks at all threads of the process."""
_ACCOUNT_TURNS = 8
"""Calm turns between two accounts: to ask the kernel for the CPU time costs as much as the rest of such a turn."""
_LATE_NS = 10_000_000
"""A turn so late may mean that somebody holds the GIL: twice the time after which Python asks for it back."""
_SUSPECTS_NS = 60_000_000_000
"""After a late turn: for so long the next one is to know who ran. To read all threads' CPU times is half of a turn."""
_PATIENCE = 10
_OTHERS_DEPTH = 12
_MAX_OWN = 16
_MAX_OTHERS = 64
_OLD_STEP_NS = 10_000_000_000
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
        self._perf_ns = clock.perf_ns
        self._frames = frames
        self._pace = Pace(int(tick_ms * 1_000_000))
        self._looks = Looks(stacks, clock, redact=redact)
        self._cpu = CpuTimes()
        self._suspects_until_ns = 0
        """Until when somebody may hold the interpreter again."""
        self._locks = LockWaits(stacks, probe, clock, redact=redact, frames=frames)
        self._worker = Worker("midwatch-watchdog", self._run)
        self._planned_ns = 0
        self._next_look_ns = 0
        self._next_others_ns = 0
        self._idle_turns = _IDLE_TURNS
        self._calm_turns = 0
        """Since the last account."""

    def start(self) -> None:
        """Start watching."""
        # Name a stack once, so that the first one that matters need not ask for folders and modules.
        self._stacks.look(sys._getframe(), 4)  # noqa: SLF001 - the one way to one's own frame
        self._worker.start()

    def stop(self) -> None:
        """Stop watching. What was seen can still be asked for."""
        self._worker.stop(wake=self._tracker.wake)
        self._planned_ns = 0

    def evidence(self, request: InFlight, end_ns: int) -> Evidence:
        """Return what was seen of a request that ended at ``end_ns``, or still runs then.

        Where another thread held the GIL, the request may have ended before the watchdog got its turn: then what that
        late look found of the other threads is all there is.
        """
        self._let_late_turn_pass()
        samples, idents = self._looks.samples(request, end_ns)
        return Evidence(samples, self._locks.between(request.start_ns, end_ns, idents))

    def turn(self) -> int:
        """Look once where a request is overdue; return how many ns to sleep, or `PARKED`.

        Most turns find nothing to do, and wake up to a cold cache: they call little, since there a function costs ten
        times what it costs in a loop.
        """
        now_ns = self._perf_ns()
        flying = self._tracker.in_flight()
        due_ns = latest_ns = now_ns + self._ahead_ns()
        calm = not self._next_look_ns and now_ns - self._planned_ns < _LATE_NS
        for request in flying:
            deadline_ns = request.deadline_ns
            if deadline_ns > now_ns:
                if deadline_ns < due_ns:  # noqa: PLR1730 - no call, as said
                    due_ns = deadline_ns
            elif deadline_ns:
                calm = False
        if calm:
            self._calm_turns += 1
            if self._calm_turns >= _ACCOUNT_TURNS:
                self._account(now_ns)
            floor_ns = self._pace.calm_ns
        else:
            due_ns = min(self._attend(flying, now_ns), max(latest_ns, now_ns + self._pace.calm_ns))
            floor_ns = self._pace.floor_ns() if self._next_look_ns else self._pace.calm_ns
        if flying:
            self._idle_turns = 0
        elif self._idles():
            self._planned_ns = 0
            return PARKED
        if now_ns < self._suspects_until_ns:
            self._cpu.note(self._perf_ns())
        self._planned_ns = due_ns = max(due_ns, now_ns + floor_ns)
        return max(0, due_ns - self._perf_ns())

    def _ahead_ns(self) -> int:
        """Return the time to the earliest deadline that a request could have which begins right now."""
        shortest_ns = self._tracker.shortest_ns
        return min(max(shortest_ns, _SHORTEST_AHEAD_NS), _LONGEST_SLEEP_NS) if shortest_ns else _LONGEST_SLEEP_NS

    def _attend(self, flying: Sequence[InFlight], now_ns: int) -> int:
        """Look where a request is overdue, or this turn is late; return when to look next."""
        if self._calm_turns:
            self._account(now_ns)
        overdue = [request for request in flying if 0 < request.deadline_ns <= now_ns]
        late_ns = self._late_ns(flying, now_ns)
        if late_ns >= _LATE_NS:
            self._suspects_until_ns = now_ns + _SUSPECTS_NS
            runner = self._cpu.alone(now_ns, late_ns, look(list, self._frames))
            if runner is not None:
                self._looks.ran_alone(now_ns, runner)
        if overdue:
            self._follow(overdue, now_ns, late_ns)
        else:
            if self._next_look_ns:
                self._calm_down()
            if late_ns >= _LATE_NS:
                self._look_at_others((), now_ns, late_ns)
        self._account(now_ns)
        ahead = [request.deadline_ns for request in flying if request.deadline_ns > now_ns]
        return min([self._next_look_ns or now_ns + _LONGEST_SLEEP_NS, *ahead])

    def _account(self, now_ns: int) -> None:
        self._pace.account(now_ns, self._clock.cpu_ns(), calm_turns=self._calm_turns)
        self._calm_turns = 0

    def _idles(self) -> bool:
        """Return whether nothing has been in flight for a while. To block between any two requests would cost both
        the one that has to wake the watchdog and the watchdog.
        """
        self._idle_turns += 1
        return self._idle_turns > _IDLE_TURNS

    def _late_ns(self, flying: Sequence[InFlight], now_ns: int) -> int:
        """Return by how much this turn came later than planned. A parked watchdog is woken when a request begins."""
        planned_ns = self._planned_ns or min((request.start_ns for request in flying), default=now_ns)
        return max(0, now_ns - planned_ns)

    def _let_late_turn_pass(self) -> None:
        """Where the watchdog is due and has not come, it waits for the GIL right now: give it a moment."""
        for _ in range(_PATIENCE):
            if not self._planned_ns or self._clock.perf_ns() - self._planned_ns < _LATE_NS:
                return
            self._clock.sleep(0.001)

    def _follow(self, overdue: Sequence[InFlight], now_ns: int, late_ns: int) -> None:
        """Look at overdue requests, unless all of them were looked at a short while ago."""
        self._pace.alert(now_ns)
        if now_ns >= self._next_look_ns or not all(map(self._looks.knows, overdue)):
            own = _own_threads(overdue)
            stacks = self._look_at(own, now_ns, late_ns, unit=False)
            for request in overdue:
                if request.open_end and now_ns - request.deadline_ns > _OLD_STEP_NS:
                    self._tracker.forget(request.request_id)
                else:
                    self._looks.overdue(request, now_ns)
            # What was seen is on record: from here on things are named, which takes longer.
            self._look_around(overdue, stacks, now_ns, late_ns)
            latest_ns = max(request.deadline_ns for request in overdue)
            self._next_look_ns = now_ns + self._pace.looking_ns(now_ns - latest_ns)

    def _look_at(
        self, since_ns: Mapping[int, int], now_ns: int, late_ns: int, *, unit: bool
    ) -> dict[int, tuple[Stack, int]]:
        """Take the stacks of threads, each with the time from which it counts."""
        taken = look(
            lambda frames: {ident: self._stacks.walk(frames.get(ident)) for ident in since_ns},
            self._frames,
        )
        stacks = {}
        for ident, stack in taken.items():
            before_ns = self._looks.add(ident, stack, now_ns, late_ns, unit=unit)
            stacks[ident] = stack, max(before_ns, since_ns[ident])
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
        if now_ns >= self._next_others_ns or late_ns >= _LATE_NS:
            self._next_others_ns = now_ns + _OTHERS_NS
            self._look_at_others(stacks, now_ns, late_ns)

    def _look_at_others(self, seen: Collection[int], now_ns: int, late_ns: int) -> None:
        def walk(frames: Mapping[int, FrameType]) -> dict[int, Stack]:
            others = [ident for ident in frames if ident not in seen and not is_own(ident)]
            return {ident: self._stacks.walk(frames[ident], _OTHERS_DEPTH) for ident in others[:_MAX_OTHERS]}

        for ident, stack in look(walk, self._frames).items():
            self._looks.add(ident, stack, now_ns, late_ns, unit=False)

    def _calm_down(self) -> None:
        """Nothing is overdue any more: end what was being followed."""
        self._next_look_ns = self._next_others_ns = 0
        self._locks.finish()
        self._looks.forget_threads()

    def _run(self, stop: threading.Event) -> None:
        self._planned_ns = self._clock.perf_ns()
        while not stop.is_set():
            try:
                pause_ns = self.turn()
            except Exception as error:
                guard.failed("watchdog", error)
                pause_ns = _ERROR_PAUSE_NS
            if pause_ns == PARKED:
                self._tracker.wait_for_request(_PARK_S)
            elif pause_ns > _LONGEST_SLEEP_NS:
                self._clock.wait(stop, pause_ns / 1e9)
            elif pause_ns > 0:
                # One call into C: waiting on an event runs a page of Python each time.
                self._clock.sleep(pause_ns / 1e9)


def _own_threads(overdue: Sequence[InFlight]) -> dict[int, int]:
    """Return the threads of the overdue requests, each with the earliest begin; the latest overdue go first."""
    own: dict[int, int] = {}
    for request in sorted(overdue, key=lambda request: request.deadline_ns, reverse=True):
        if request.thread_ident in own or len(own) < _MAX_OWN:
            own[request.thread_ident] = min(own.get(request.thread_ident, request.start_ns), request.start_ns)
    return own
