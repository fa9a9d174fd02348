"""Everything that was seen during a request or a window, gathered from those who saw it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from midwatch.clock import Clock
from midwatch.drops import drops
from midwatch.intake import Intake
from midwatch.manners import GiveWay
from midwatch.model.capture import Capture
from midwatch.model.requests import RequestRecord, Workload
from midwatch.model.resource import Resource
from midwatch.model.samples import CompileEvent, GcPause, GpuSample, HostSample
from midwatch.model.spike import Spike
from midwatch.model.tracks import ThreadName, Tracks
from midwatch.requests.ledger import Ledger
from midwatch.requests.records import Recorder
from midwatch.requests.tracker import Mark, Tracker
from midwatch.requests.units import Unit, worked_for
from midwatch.sensors.cuda import initialised
from midwatch.watch.sampler import WindowSampler, WindowSamples
from midwatch.watch.threads import everyone
from midwatch.watch.watchdog import Watchdog

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")

_AROUND_NS = 2_000_000_000
"""Readings of device and host so long before and after a request belong to it: some of a device come once a second."""
_MAX_UNITS = 64
_MAX_REQUESTS = 5_000
_FINISH_S = 0.5
_STEP_S = 0.01

Between = Callable[[int, int], "Iterable[T]"]
"""What was seen between two monotonic times, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Senses:
    """What the sensors remember, each by time; a sensor that is off remembers nothing."""

    gc: Between[GcPause]
    compiles: Between[CompileEvent]
    gpu: Between[GpuSample]
    host: Between[HostSample]


class Evidence:
    """Gathers. Used by the sampler's thread for spikes and by the profiler thread for windows."""

    def __init__(
        self,
        clock: Clock,
        *,
        tracker: Tracker,
        ledger: Ledger,
        watch: Watchdog,
        stacks: WindowSampler,
        senses: Senses,
        resource: Callable[[], Resource],
        redact: bool = False,
    ) -> None:
        self._clock = clock
        self._tracker = tracker
        self._ledger = ledger
        self._watch = watch
        self._stacks = stacks
        self._senses = senses
        self._resource = resource
        self._redact = redact
        self._recorder = Recorder(clock, redact=redact)
        self._record = WindowSamples()
        self.intake: Intake | None = None
        """Set once the intake exists: the two need each other."""

    # For a spike

    def testify(self, spike: Spike, mark: Mark) -> Spike:
        """Return ``spike`` with its evidence."""
        start_ns, end_ns = mark.start_ns, mark.end_ns or self._clock.perf_ns()
        seen = self._watch.evidence(mark, end_ns)
        units = _last(worked_for(mark, self._units(start_ns, end_ns)), _MAX_UNITS, "units_of_one_request")
        return replace(
            spike,
            samples=seen.samples,
            locks=seen.locks,
            gc=tuple(self._senses.gc(start_ns, end_ns)),
            compiles=tuple(self._senses.compiles(start_ns, end_ns)),
            units=tuple(self._recorder.unit(unit) for unit in units),
            gpu=tuple(self._senses.gpu(start_ns - _AROUND_NS, end_ns + _AROUND_NS)),
            host=tuple(self._senses.host(start_ns - _AROUND_NS, end_ns + _AROUND_NS)),
            has_device=initialised(),
        )

    # For a window

    def begin(self) -> None:
        """Begin to sample stacks."""
        self._record = WindowSamples()
        self._stacks.start()

    def halt(self) -> None:
        """Sample no more; may be called again."""
        self._stacks.halt()

    def end(self) -> None:
        """Name what was sampled; may be called again."""
        record = self._stacks.stop()
        if record.samples or record.locks:
            self._record = record

    def finished_between(self, start_ns: int, end_ns: int) -> int:
        """Return how many requests have begun and ended between two monotonic times."""
        self._digest()
        return self._ledger.requests.within(start_ns, end_ns)

    def tracks(self, capture: Capture, start_ns: int, end_ns: int) -> Tracks:
        """Return all that was seen between two monotonic times, requests that the window cut included."""
        requests = self._requests(start_ns, end_ns)
        route = capture.route or _heaviest(requests)
        intake = self.intake
        record, self._record = self._record, WindowSamples()
        capture = replace(
            capture,
            route=route,
            workload=_workload(requests, route),
            baseline=intake.baseline(route) if intake is not None else capture.baseline,
        )
        return Tracks(
            resource=self._resource(),
            capture=capture,
            requests=requests,
            units=self._records(self._recorder.unit, self._units(start_ns, end_ns)),
            frames=record.frames,
            stacks=record.stacks,
            samples=record.samples,
            gc=tuple(self._senses.gc(start_ns, end_ns)),
            locks=record.locks,
            compiles=tuple(self._senses.compiles(start_ns, end_ns)),
            threads=self._threads(record.threads),
        )

    def _requests(self, start_ns: int, end_ns: int) -> tuple[RequestRecord, ...]:
        """Return the requests that overlap; those in flight get a moment to end, and so their real duration."""
        limit_ns = self._clock.perf_ns() + int(_FINISH_S * 1e9)
        while True:
            running = [mark for mark in self._tracker.in_flight() if mark.start_ns <= end_ns]
            if not running or self._clock.perf_ns() >= limit_ns:
                break
            self._clock.sleep(_STEP_S)
        self._digest()
        marks = self._ledger.requests.overlapping(start_ns, end_ns)
        marks = _last(marks, _MAX_REQUESTS, "requests_of_one_window")
        seen = {mark.request_id for mark in marks}
        marks += [mark for mark in running if mark.request_id not in seen]
        return self._records(self._recorder.request, marks)

    def _units(self, start_ns: int, end_ns: int) -> list[Unit]:
        return self._ledger.units.overlapping(start_ns, end_ns)

    def _records(self, record: Callable[[S], R], spans: list[S]) -> tuple[R, ...]:
        """Return the records of many requests or units."""
        give_way = GiveWay(self._clock)
        records = []
        for span in spans:
            give_way()
            records.append(record(span))
        return tuple(records)

    def _threads(self, sampled: tuple[ThreadName, ...]) -> tuple[ThreadName, ...]:
        """Return the threads that were sampled, some of which may have ended, and those that run now."""
        known = {thread.ident: thread for thread in sampled}
        for thread in everyone(redact=self._redact):
            known.setdefault(thread.ident, thread)
        return tuple(known.values())

    def _digest(self) -> None:
        if self.intake is not None:
            self.intake.digest()


def _last(seen: list[T], most: int, reason: str) -> list[T]:
    """Return the last ``most`` of what was seen; the others are counted as dropped."""
    if len(seen) > most:
        drops.drop(reason, len(seen) - most)
    return seen[-most:]


def _heaviest(requests: Iterable[RequestRecord]) -> str:
    """Return the route that took most time: a cheap one that is asked often says little about what the window shows."""
    spent_ns: Counter[str] = Counter()
    for request in requests:
        spent_ns[request.route] += request.duration_ns
    most = spent_ns.most_common(1)
    return most[0][0] if most else ""


def _workload(requests: Iterable[RequestRecord], route: str) -> Workload:
    """Return the workload that most requests of the route had."""
    seen = [request.workload for request in requests if request.route == route and request.workload.inputs]
    found = Counter((workload.inputs, workload.batch) for workload in seen).most_common(1)
    return Workload(*found[0][0]) if found else Workload()
