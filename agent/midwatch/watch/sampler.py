"""Samples stacks beside a profiler window, so that a wait in the trace gets the line that waited."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import NamedTuple

from midwatch.clock import Clock
from midwatch.drops import drops
from midwatch.guard import guard
from midwatch.lifecycle import Worker
from midwatch.manners import GiveWay
from midwatch.model.samples import LockWait
from midwatch.model.site import Frame
from midwatch.model.tracks import SampleRow, ThreadName
from midwatch.watch.frames import Frames, current_frames, look
from midwatch.watch.lockprobe import LockProbe
from midwatch.watch.lockwaits import LockWaits
from midwatch.watch.protocols import Tracker
from midwatch.watch.stacks import Spot, Stack, Stacks
from midwatch.watch.threads import describe, is_own

_MAX_SAMPLES = 20_000
_COST_MULTIPLE = 20
"""A twentieth of one core at most."""
_OTHERS_NS = 20_000_000
"""Between two checks whether threads that serve no request have moved."""
_LATE_NS = 10_000_000
"""A turn so late may mean that one of them holds the GIL."""
_MAX_OTHERS = 64


@dataclass(frozen=True, slots=True)
class WindowSamples:
    """The samples of one window, interned as in `Tracks`."""

    frames: tuple[Frame, ...] = ()
    stacks: tuple[tuple[int, ...], ...] = ()
    samples: tuple[SampleRow, ...] = ()
    locks: tuple[LockWait, ...] = ()
    threads: tuple[ThreadName, ...] = ()


class WindowSampler:
    """Samples one window at a time, on a thread of its own that exists only meanwhile.

    Args:
        tracker: the requests in flight and the threads of units.
        stacks: walks and names frames.
        probe: finds locks and their holders.
        clock: the time.
        hz: samples a second of each thread.
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
        hz: float = 1000.0,
        redact: bool = False,
        frames: Frames = current_frames,
    ) -> None:
        self._tracker = tracker
        self._stacks = stacks
        self._probe = probe
        self._clock = clock
        self._interval_ns = int(1e9 / hz)
        self._redact = redact
        self._frames = frames
        self._worker = Worker("midwatch-window", self._run)
        self._round: SamplingRound | None = None

    def start(self) -> None:
        """Begin a window."""
        locks = LockWaits(self._stacks, self._probe, self._clock, redact=self._redact, frames=self._frames)
        self._round = SamplingRound(
            self._tracker,
            self._stacks,
            locks,
            self._clock,
            frames=self._frames,
            interval_ns=self._interval_ns,
            redact=self._redact,
        )
        self._worker.start()

    def halt(self) -> None:
        """Take no more samples, and keep those taken. May be called again."""
        self._worker.stop()

    def stop(self) -> WindowSamples:
        """End the window and return what was seen, nothing where none is open. Naming happens here, on the caller."""
        self.halt()
        done, self._round = self._round, None
        return done.result() if done is not None else WindowSamples()

    def _run(self, stop: threading.Event) -> None:
        current = self._round
        while current is not None and not stop.is_set():
            pause_ns = guard.call("window.sample", current.sample, default=_OTHERS_NS)
            if pause_ns > 0:
                # One call into C: waiting on the event would cost more than the samples.
                self._clock.sleep(pause_ns / 1e9)


class _Row(NamedTuple):
    at_ns: int
    ident: int
    stack: Stack
    weight_ns: int
    late_ns: int


class SamplingRound:
    """The samples of one window: each serving thread at each turn, other threads only when they have moved."""

    def __init__(
        self,
        tracker: Tracker,
        stacks: Stacks,
        locks: LockWaits,
        clock: Clock,
        *,
        frames: Frames,
        interval_ns: int,
        redact: bool = False,
    ) -> None:
        self._tracker = tracker
        self._stacks = stacks
        self._locks = locks
        self._clock = clock
        self._frames = frames
        self._interval_ns = interval_ns
        self._redact = redact
        self._rows: list[_Row] = []
        self._threads: dict[int, ThreadName] = {}
        self._serving: set[int] = set()
        self._others: dict[int, Stack] = {}
        self._last_ns: dict[int, int] = {}
        self._begun_ns = self._planned_ns = clock.perf_ns()
        self._next_others_ns = 0
        self._cpu_ns = 0
        self._cost_ns = 0.0

    def sample(self) -> int:
        """Take one turn; return how many ns to sleep before the next."""
        now_ns = self._clock.perf_ns()
        late_ns = max(0, now_ns - self._planned_ns)
        self._serving.update([request.thread_ident for request in self._tracker.in_flight()])
        self._serving.update(self._tracker.unit_threads())
        for ident, stack in self._take_stacks().items():
            before_ns = self._keep(ident, stack, now_ns, late_ns)
            self._locks.looked(ident, stack, before_ns, now_ns)
        if now_ns >= self._next_others_ns or late_ns >= _LATE_NS:
            self._next_others_ns = now_ns + _OTHERS_NS
            self._check_others(now_ns, late_ns)
        self._planned_ns = now_ns + max(self._interval_ns, self._account())
        return max(0, self._planned_ns - self._clock.perf_ns())

    def result(self) -> WindowSamples:
        """Name everything that was seen. Called once, when no more turns are taken."""
        self._locks.finish()
        give_way = GiveWay(self._clock)
        table = _Table(give_way)
        samples = []
        for row in self._rows:
            give_way()
            samples.append(
                SampleRow(
                    unix_ns=self._clock.to_unix(row.at_ns),
                    thread_id=self._threads[row.ident].native_id,
                    stack=table.add(row.stack),
                    weight_ns=row.weight_ns,
                    late_ns=row.late_ns,
                )
            )
        return WindowSamples(
            frames=tuple(table.frames),
            stacks=tuple(table.stacks),
            samples=tuple(samples),
            locks=self._locks.between(0, sys.maxsize),
            threads=tuple(self._threads[ident] for ident in sorted(self._threads)),
        )

    def _take_stacks(self) -> dict[int, Stack]:
        """Walk the threads that serve."""

        def walk(frames: Mapping[int, FrameType]) -> dict[int, Stack]:
            return {ident: self._stacks.walk(frames[ident]) for ident in self._serving if ident in frames}

        return look(walk, self._frames)

    def _account(self) -> int:
        """Return the shortest interval that the cost of the turns so far allows."""
        cpu_ns = self._clock.cpu_ns()
        if self._cpu_ns:
            self._cost_ns += (cpu_ns - self._cpu_ns - self._cost_ns) / 8
        self._cpu_ns = cpu_ns
        return int(self._cost_ns * _COST_MULTIPLE)

    def _keep(self, ident: int, stack: Stack, now_ns: int, late_ns: int) -> int:
        """Keep one sample; return when that thread was looked at before."""
        before_ns = self._last_ns.get(ident, self._begun_ns)
        self._last_ns[ident] = now_ns
        if ident not in self._threads:
            self._threads[ident] = describe(ident, redact=self._redact)
        if len(self._rows) < _MAX_SAMPLES:
            self._rows.append(_Row(now_ns, ident, stack, now_ns - before_ns, late_ns))
        else:
            drops.drop("samples_of_one_window")
        return before_ns

    def _check_others(self, now_ns: int, late_ns: int) -> None:
        look(lambda frames: self._keep_moved(frames, now_ns, late_ns), self._frames)

    def _keep_moved(self, frames: Mapping[int, FrameType], now_ns: int, late_ns: int) -> None:
        idents = [ident for ident in frames if ident not in self._serving and not is_own(ident)]
        for ident in idents[:_MAX_OTHERS]:
            top = self._stacks.walk(frames[ident], 2)
            if self._others.get(ident, top) != top:
                self._keep(ident, self._stacks.walk(frames[ident]), now_ns, late_ns)
            else:
                self._last_ns[ident] = now_ns
            self._others[ident] = top


class _Table:
    """Frames and stacks, each once. To name a new place is the dear part: ``give_way`` is called before each."""

    def __init__(self, give_way: Callable[[], None]) -> None:
        self._give_way = give_way
        self.frames: list[Frame] = []
        self.stacks: list[tuple[int, ...]] = []
        self._spots: dict[Spot, int] = {}
        self._index: dict[Stack, int] = {}

    def add(self, stack: Stack) -> int:
        """Return the index of ``stack``."""
        index = self._index.get(stack)
        if index is None:
            index = self._index[stack] = len(self.stacks)
            self.stacks.append(tuple([self._add_spot(spot) for spot in stack]))
        return index

    def _add_spot(self, spot: Spot) -> int:
        index = self._spots.get(spot)
        if index is None:
            index = self._spots[spot] = len(self.frames)
            self._give_way()
            self.frames.append(spot.frame)
        return index
