"""What becomes of finished requests: statistics of their route, the ledger, and a spike where one was too slow."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from midwatch.clock import Clock
from midwatch.config import Settings
from midwatch.detect.detector import Judgement, RouteDetector, Verdict
from midwatch.detect.gate import SpikeGate
from midwatch.detect.windows import WindowLog
from midwatch.drops import drops
from midwatch.guard import guard
from midwatch.manners import GiveWay
from midwatch.model.order import CaptureOrder
from midwatch.model.pieces import in_pieces
from midwatch.model.requests import RouteStats
from midwatch.model.spike import Baseline, Spike
from midwatch.requests.ledger import Ledger
from midwatch.requests.records import Recorder
from midwatch.requests.stats import RouteInterval
from midwatch.requests.tracker import FIRST_NUMBERS, Finished, Mark, Tracker, unpacked
from midwatch.requests.units import Units

_BATCH = 50
"""Marks taken out at once: some hundred microseconds. A thread that needs the GIL would otherwise wait out the switch
interval of 5 ms, and that thread is serving a request."""
_BACKLOG = 2_000
"""With more that wait there is no leisure: they come in faster than they are taken."""
_HUNG_NS = 10_000_000_000
_SHORTEST_S = 0.3
_LONGEST_S = 1.0


class Witnesses(Protocol):
    """Gathers what the sensors and the watchdog saw during one request."""

    def testify(self, spike: Spike, mark: Mark) -> Spike:
        """Return ``spike`` with its evidence."""
        ...


class RouteBook:
    """All that is kept of one route."""

    def __init__(self, settings: Settings) -> None:
        self.detector = RouteDetector(warmup=settings.warmup_requests, slo_ms=settings.slo_ms)
        self.interval = RouteInterval()
        self.gate = SpikeGate()


class Intake:
    """Takes in what the tracker has finished. `digest` may be called from any of the agent's threads."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        tracker: Tracker,
        units: Units,
        ledger: Ledger,
        windows: WindowLog,
        witnesses: Witnesses,
        send: Callable[[dict[str, Any]], bool],
        offer_window: Callable[[CaptureOrder], bool],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._tracker = tracker
        self._units = units
        self._ledger = ledger
        self._windows = windows
        self._witnesses = witnesses
        self._send = send
        self._offer_window = offer_window
        self._recorder = Recorder(clock, redact=settings.redact)
        self._lock = threading.Lock()
        self._books: dict[str, RouteBook] = {}
        self._interval_ns = clock.perf_ns()
        self._hung: set[int] = set()
        self.requests = 0
        self.spikes = 0

    def digest(self, give_way: Callable[[], None] | None = None) -> int:
        """Take in all requests and units that have finished by now; return how many requests these were.

        ``give_way`` is called in between, unless so many wait that there is no leisure.
        """
        hurried = GiveWay(self._clock)
        self._take_units(hurried)
        count = left = self._tracker.finished()
        most = 1  # the first one finds nothing in any cache, and takes as long as a hundred later ones
        while left > 0:
            with self._lock:
                taken = self._tracker.take(min(left, most))
                self._take_all(taken)
            if not taken:
                break  # another thread was at it, too
            most = _BATCH
            left -= len(taken)
            (hurried if give_way is None or left > _BACKLOG else give_way)()
        if count:
            self._tracker.note_limits()
        return count

    def look_for_hung(self) -> None:
        """Tell of requests that have been overdue for ten seconds and still run: they may never end.

        Not of training steps: whether an open one still runs is known only when the next one follows.
        """
        now_ns = self._clock.perf_ns()
        for mark in self._tracker.in_flight():
            if mark.open_end or mark.request_id in self._hung:
                continue
            if mark.deadline_ns and now_ns > mark.deadline_ns + _HUNG_NS:
                self._hung.add(mark.request_id)
                with self._lock:
                    book = self._book(mark.route.name)
                    limit_ns = mark.deadline_ns - mark.start_ns
                    self._spike(mark, book, Judgement(Verdict.SPIKE, book.detector.rule, limit_ns))

    def take_stats(self) -> list[RouteStats]:
        """Return what each route did since the last call."""
        with self._lock:
            start_ns, self._interval_ns = self._interval_ns, self._clock.perf_ns()
            # Both by the clock as it is now: where it was set meanwhile, an interval would begin in another year.
            start_unix_ns, end_unix_ns = self._clock.to_unix(start_ns), self._clock.to_unix(self._interval_ns)
            taken = [book.interval.take(name, start_unix_ns, end_unix_ns) for name, book in self._books.items()]
        return [stats for stats in taken if stats is not None]

    def baseline(self, route: str) -> Baseline:
        """Return what the route normally does."""
        with self._lock:
            book = self._books.get(route)
            return Baseline() if book is None else book.detector.baseline()

    def warmed_up(self) -> bool:
        """Whether any route is past its warm-up. Takes no lock: the status asks, on the service's own threads."""
        return any(not book.detector.warming_up for book in tuple(self._books.values()))

    def _book(self, route: str) -> RouteBook:
        book = self._books.get(route)
        if book is None:
            book = self._books[route] = RouteBook(self._settings)
        return book

    def _take_units(self, give_way: Callable[[], None]) -> None:
        with self._lock:  # all of them before a request that waited for one
            for left in range(self._units.finished(), 0, -_BATCH):
                for numbers, *others in self._units.take(min(left, _BATCH)):
                    self._ledger.units.put(numbers, others)
                give_way()

    def _take_all(self, taken: list[Finished]) -> None:
        for finished in taken:
            try:
                self._take(finished)
            except Exception as error:  # noqa: PERF203 - one that breaks costs itself alone
                guard.failed("intake.request", error)

    def _take(self, finished: Finished) -> None:
        """Take in one request. At hundreds a second this is most of what the agent costs, so it calls little."""
        self.requests += 1
        numbers, route, status, *_, workload, _ = finished
        start_ns, end_ns, gc_ns = FIRST_NUMBERS.unpack_from(numbers)
        if workload is None and len(self._ledger.units):
            mark = unpacked(finished)
            self._units.explain(mark, self._ledger.units)
            workload = mark.workload
            finished = (*finished[:-2], workload, finished[-1])
        self._ledger.requests.put(numbers, finished[1:])
        book = self._books.get(route.name) or self._book(route.name)
        detector = book.detector
        judgement = detector.judge(
            end_ns - start_ns,
            shape=workload.key if workload is not None else "",
            in_window=start_ns <= self._windows.until_ns and bool(self._windows.overlapping(start_ns, end_ns)),
        )
        route.limit_ns = detector.limit_ns
        verdict = judgement.verdict
        spike = verdict is Verdict.SPIKE
        book.interval.add(
            end_ns - start_ns, gc_ns, error=status == "error", warmup=verdict is Verdict.WARMUP, spike=spike
        )
        if spike or self._hung:
            mark = unpacked(finished)
            if mark.request_id in self._hung:
                self._hung.discard(mark.request_id)
            elif spike:
                self._spike(mark, book, judgement)

    def _spike(self, mark: Mark, book: RouteBook, judgement: Judgement) -> None:
        self.spikes += 1
        now_ns = self._clock.perf_ns()
        if not book.gate.admit(now_ns, watched=0 < mark.deadline_ns < (mark.end_ns or now_ns)):
            drops.drop("spike_rate")
            return
        spike_id = os.urandom(8).hex()
        seconds = 0.0
        if judgement.rule != "new_shape":
            seconds = book.gate.window_seconds(now_ns, least_s=_SHORTEST_S, most_s=_LONGEST_S)
        order = CaptureOrder(os.urandom(8).hex(), "spike", seconds, spike_id=spike_id, route=mark.route.name)
        opens = seconds > 0 and self._offer_window(order)
        if opens:
            book.gate.window_ordered(now_ns)
        spike = Spike(
            spike_id=spike_id,
            request=self._recorder.request(mark),
            deadline_ms=judgement.limit_ns / 1e6,
            rule=judgement.rule,
            baseline=book.detector.baseline(mark.workload.key if mark.workload is not None else ""),
            capture_id=order.capture_id if opens else "",
        )
        give_way = GiveWay(self._clock)
        self._send({"t": "spike", "spike": in_pieces(self._witnesses.testify(spike, mark), give_way)})
