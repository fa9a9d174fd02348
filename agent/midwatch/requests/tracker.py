"""Requests in flight. `Tracker.begin` and `Tracker.end` run inside every request of the service, so they do little:
no lock, no formatting, no allocation beyond the mark. All else happens later, when finished marks are drained.
"""

from __future__ import annotations

import itertools
import struct
import sys
import threading
from collections import deque
from contextvars import ContextVar, Token
from typing import Any

from midwatch.clock import Clock
from midwatch.drops import drops
from midwatch.guard import guard
from midwatch.model.workload import Workload

OTHER = "other"
MAX_ROUTES = 256
"""Routes are templates; a service with more has made one from values, and they must not leave the process."""
_MAX_FINISHED = 65_536
_MAX_OPEN = 16_384
"""In flight at a time. More have been begun without being ended: each keeps its context, and what that holds, alive."""
_UNIT_THREAD_NS = 10_000_000_000

_modules = sys.modules
NUMBERS = ("start_ns", "end_ns", "gc_ns", "request_id", "deadline_ns", "cpu_ns", "compiles", "in_flight")
OTHERS = ("route", "status", "is_async", "open_end", "thread", "workload", "extra")
"""The fields of `Mark` that a finished request keeps, in the order in which `Tracker.end` puts them into its queue."""
FIRST_NUMBERS = struct.Struct("=3q")
_NUMBERS = struct.Struct(f"={len(NUMBERS)}q")
_pack = _NUMBERS.pack
_FIELDS = len(NUMBERS) + len(OTHERS)


class Route:
    """A route's name, and how long its requests may take; ``limit_ns`` is 0 while it has no deadline."""

    __slots__ = ("asked", "carried", "limit_ns", "name")

    def __init__(self, name: str, limit_ns: int = 0) -> None:
        self.name = name
        self.limit_ns = limit_ns
        self.asked = 0
        """Requests without a unit of their own, counted no further than `Units.explain` needs."""
        self.carried = 0.0
        """The share of these in which a unit of no request's own ran from its begin to its end."""


Thread = tuple[int, int, str]
"""Python's ident, the kernel's id and the name of a thread: one object for all that ran there."""


class Here(threading.local):
    """What is the same for all marks of one thread. Asking the kernel for the thread's id at each mark costs more."""

    def __init__(self) -> None:
        self.thread: Thread = threading.get_ident(), threading.get_native_id(), threading.current_thread().name


class Extra:
    """What few requests have; kept apart so that a mark stays small, and one object: each that is kept for longer than
    a request brings the host's next garbage collection nearer.
    """

    __slots__ = ("notes", "trace_id")

    def __init__(self) -> None:
        self.trace_id = ""
        self.notes: dict[str, str] = {}


class Mark:
    """One request, from begin to end. Times are `Clock.perf_ns`; ``end_ns`` is 0 while it runs."""

    __slots__ = (
        "compiles", "cpu_ns", "deadline_ns", "depth", "end_ns", "extra", "gc_ns", "in_flight", "is_async", "open_end",
        "owner", "request_id", "route", "start_ns", "status", "thread", "token", "workload",
    )  # fmt: skip

    request_id: int
    route: Route
    start_ns: int
    end_ns: int
    deadline_ns: int
    """When it becomes overdue; 0 where its route has no deadline."""
    thread: Thread
    is_async: bool
    cpu_ns: int
    """While it runs, what the counter showed at the beginning; then the difference. The next two likewise."""
    gc_ns: int
    compiles: int
    in_flight: int
    depth: int
    """How many times the mark that began it has been entered again inside of it."""
    owner: object
    """The mark object that began it and has not ended it."""
    open_end: bool
    """Whether only the next one ends it, if there is one: a training step."""
    status: str
    workload: Workload | None
    extra: Extra | None
    token: Token[Mark | None] | None

    @property
    def thread_ident(self) -> int:
        """Python's ident of the thread that began it."""
        return self.thread[0]

    @property
    def details(self) -> Extra:
        """The rare fields, made when first asked for."""
        if self.extra is None:
            self.extra = Extra()
        return self.extra


Finished = tuple[bytes, Route, str, bool, bool, Thread, Workload | None, Extra | None]
"""A finished request: its `NUMBERS`, packed, and its `OTHERS`."""


class Tracker:
    """Knows the requests in flight, hands out the finished ones, and wakes those who wait for either."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._perf_ns = clock.perf_ns
        self._cpu_ns = clock.cpu_ns
        self._here = Here()
        self._ids = itertools.count(1)
        self._open: dict[int, Mark] = {}
        self.context: ContextVar[Mark | None] = ContextVar("midwatch_request", default=None)
        self._finished: deque[Any] = deque()
        """The fields of `Finished` of one request after another; one thread at a time takes from it."""
        self._routes: dict[str, Route] = {OTHER: Route(OTHER)}
        # Re-entrant: to allocate under it may start a collection, and a finaliser of the host's may begin a request.
        self._routes_lock = threading.RLock()
        self._arrival = threading.Event()
        self._asleep = False
        self._calm = threading.Event()
        self._lurking = False
        """Whether somebody waits for `_calm`."""
        self.unit_seen: dict[int, int] = {}
        """When a thread, by ident, was last known to run a unit."""
        self.off = False
        """True in a forked child and after the end: marks do nothing."""
        self.on_overdue = threading.Event()
        """Set whenever a request ended past its deadline."""
        self.gc_ns = 0
        self.compiles = 0
        self.shortest_ns = 0
        """The shortest time that any route's requests may take, as of the last `note_limits`; 0 without a deadline."""
        self.marked = False
        """Whether anything but a unit has ever begun a request here."""

    # In the request itself

    def begin(self, name: str, *, is_async: bool | None = None, bind: bool = True, marked: bool = True) -> Mark | None:
        """Begin a request; None where it is part of one that is open in this context, or marks are off.

        ``bind`` makes it the current request of this context. ``is_async`` is found out where it is not given.
        ``marked`` is False for a unit that stands in for a request.
        """
        if self.off:
            return None
        outer = self.context.get()
        if outer is not None and outer.end_ns == 0:
            return None
        if is_async is None:
            asyncio = _modules.get("asyncio.events")
            is_async = asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - the cheap way
        in_flight = len(self._open)
        if in_flight >= _MAX_OPEN:
            drops.drop("too_many_in_flight")
            return None
        if marked:
            self.marked = True
        mark = Mark()
        mark.route = route = self._routes.get(name) or self._add_route(name)
        mark.request_id = request_id = next(self._ids)
        mark.thread = self._here.thread
        mark.is_async = is_async
        mark.end_ns = mark.depth = 0
        mark.status = "running"
        mark.extra = mark.owner = mark.workload = None
        mark.open_end = False
        mark.gc_ns = self.gc_ns
        mark.compiles = self.compiles
        mark.cpu_ns = 0 if is_async else self._cpu_ns()
        mark.token = self.context.set(mark) if bind else None
        mark.start_ns = start_ns = self._perf_ns()
        mark.deadline_ns = start_ns + route.limit_ns if route.limit_ns else 0
        mark.in_flight = in_flight + 1
        self._open[request_id] = mark
        if self._asleep:
            try:  # noqa: SIM105 - to suppress it takes the stack that there is none of
                self._arrival.set()
            except RecursionError:
                pass  # the mark is open and must be handed out, or it would stay so; the next request rouses
        return mark

    def end(self, mark: Mark, status: str = "ok") -> None:
        """End a request; a second end of the same one does nothing."""
        end_ns = self._perf_ns()
        if self._open.pop(mark.request_id, None) is None:
            return
        stayed = not mark.is_async and mark.thread[0] == self._here.thread[0]
        # The differences before the end: whoever tells of a mark that has one takes them for what it used.
        mark.cpu_ns = cpu_ns = self._cpu_ns() - mark.cpu_ns if stayed else 0
        mark.gc_ns = gc_ns = self.gc_ns - mark.gc_ns
        mark.compiles = compiles = self.compiles - mark.compiles
        mark.status = status
        mark.end_ns = end_ns
        if mark.token is not None:
            try:  # noqa: SIM105 - to suppress it costs as much as all else here
                self.context.reset(mark.token)
            except ValueError:
                pass  # ended in another context (a generator closed elsewhere): the old one keeps an ended mark
            mark.token = None
        if self.off:
            return
        finished = self._finished
        if len(finished) < _MAX_FINISHED * _FIELDS:
            # Not the mark, which would bring the host's garbage collector nearer, as would a tuple. Nor packed: that
            # is left to whoever takes it out.
            finished.extend((
                mark.start_ns, end_ns, gc_ns, mark.request_id, mark.deadline_ns, cpu_ns, compiles, mark.in_flight,
                mark.route, status, mark.is_async, mark.open_end, mark.thread, mark.workload, mark.extra,
            ))  # fmt: skip
        else:
            drops.drop("finished_queue_full")
        if mark.deadline_ns and end_ns > mark.deadline_ns:
            self.on_overdue.set()
        if self._lurking and not self._open:
            self._lurking = False
            self._calm.set()

    def forget(self, request_id: int) -> None:
        """Give up a request that nobody will end any more; nothing is told of it."""
        mark = self._open.get(request_id)
        if mark is not None:
            mark.end_ns = self._perf_ns()  # before all else: from here on it is the current one of its context no more
        if self._open.pop(request_id, None) is not None:
            drops.drop("request_unended")

    def current(self) -> Mark | None:
        """Return the open request of this context, if any."""
        mark = self.context.get()
        return None if mark is None or mark.end_ns else mark

    def bind(self, mark: Mark) -> Token[Mark | None]:
        """Make ``mark`` the current request of this context, for a stretch; `unbind` ends it."""
        return self.context.set(mark)

    def unbind(self, token: Token[Mark | None]) -> None:
        """End what `bind` began."""
        self.context.reset(token)

    def rename(self, mark: Mark, name: str) -> None:
        """Give an open request the route that became known only after its begin."""
        mark.route = route = self._routes.get(name) or self._add_route(name)
        mark.deadline_ns = mark.start_ns + route.limit_ns if route.limit_ns else 0

    # For the agent's own threads

    def in_flight(self) -> list[Mark]:
        """Return a snapshot of the requests in flight."""
        for _ in range(8):
            try:
                return list(self._open.values())
            except RuntimeError:  # noqa: PERF203 - it changed size, since somebody began or ended meanwhile
                continue
        return []

    def overdue(self) -> bool:
        """Return whether a request is past its deadline now."""
        now_ns = self._perf_ns()
        return any(0 < mark.deadline_ns < now_ns for mark in self.in_flight())

    def wait_for_request(self, timeout_s: float | None) -> bool:
        """Block while nothing is in flight, at most ``timeout_s``; return whether something is."""
        self._arrival.clear()
        # In this order: `begin` first adds its mark and then looks at the flag.
        self._asleep = True
        if not self._open:
            self._clock.wait(self._arrival, timeout_s)
        self._asleep = False
        return bool(self._open)

    def wait_for_calm(self, timeout_s: float) -> bool:
        """Block while anything is in flight, at most ``timeout_s``; return whether nothing is. For one thread."""
        self._calm.clear()
        # In this order: `end` first takes its mark out and then looks at the flag.
        self._lurking = True
        if self._open:
            self._clock.wait(self._calm, timeout_s)
        self._lurking = False
        return not self._open

    def wake(self) -> None:
        """Rouse whoever blocks in `wait_for_request`."""
        self._arrival.set()

    def take(self, limit: int) -> list[Finished]:
        """Take out finished requests as they were packed, the oldest first. For one thread at a time."""
        pop, taken = self._finished.popleft, []
        for _ in range(min(limit, self.finished())):
            numbers = _pack(pop(), pop(), pop(), pop(), pop(), pop(), pop(), pop())
            taken.append((numbers, pop(), pop(), pop(), pop(), pop(), pop(), pop()))
        return taken

    def drain(self) -> list[Mark]:
        """Take out all finished requests as marks, the oldest first."""
        return [unpacked(finished) for finished in self.take(_MAX_FINISHED)]

    def finished(self) -> int:
        """Return how many finished requests wait to be taken out."""
        return len(self._finished) // _FIELDS

    def after_fork(self) -> None:
        """In a forked child: mark nothing, and wait for no lock that a thread of the parent's held."""
        self.off = True
        self._routes_lock = threading.RLock()

    def unit_threads(self) -> frozenset[int]:
        """Return the idents of the threads that ran a unit within the last ten seconds."""
        since_ns = self._perf_ns() - _UNIT_THREAD_NS
        seen = self.unit_seen.copy()
        for ident, at_ns in seen.items():
            if at_ns < since_ns:
                self.unit_seen.pop(ident, None)
        return frozenset(ident for ident, at_ns in seen.items() if at_ns >= since_ns)

    def route(self, name: str) -> Route:
        """Return the route of this name, or `OTHER` where there are too many."""
        return self._routes.get(name) or self._add_route(name)

    def note_limits(self) -> None:
        """Bring `shortest_ns` up to date. Call it after routes were given other limits."""
        try:
            limits = [route.limit_ns for route in self._routes.values() if route.limit_ns]
        except RuntimeError:
            return  # a route came meanwhile: the next time
        self.shortest_ns = min(limits, default=0)

    def add_gc(self, duration_ns: int) -> None:
        """Count a garbage collection: it holds the GIL, so it held every request in flight."""
        self.gc_ns += duration_ns

    def add_compile(self) -> None:
        """Count a compilation."""
        self.compiles += 1

    def count(self) -> int:
        """Return how many requests are in flight."""
        return len(self._open)

    def _add_route(self, name: str) -> Route:
        with self._routes_lock:
            if len(self._routes) > MAX_ROUTES:
                return self._routes[OTHER]
            return self._routes.setdefault(name, Route(name))


def unpacked(finished: Finished) -> Mark:
    """Return a finished request as a mark, without the fields that only open ones have."""
    mark = Mark()
    (
        numbers, mark.route, mark.status, mark.is_async, mark.open_end, mark.thread, mark.workload, mark.extra,
    ) = finished  # fmt: skip
    (
        mark.start_ns, mark.end_ns, mark.gc_ns, mark.request_id, mark.deadline_ns, mark.cpu_ns, mark.compiles,
        mark.in_flight,
    ) = _NUMBERS.unpack(numbers)  # fmt: skip
    return mark


_tracker: Tracker | None = None


def install(tracker: Tracker | None) -> None:
    """Set the tracker that the public marks go to; None makes them do nothing."""
    global _tracker
    _tracker = tracker


def installed() -> Tracker | None:
    """Return the tracker that the public marks go to."""
    return _tracker


def safe_end(tracker: Tracker, mark: Mark, status: str) -> None:
    """End a request under the guard."""
    try:
        tracker.end(mark, status)
    except Exception as error:
        guard.failed("tracker.end", error)


def status_of(error_type: type[BaseException] | None) -> str:
    """Return the status of a request that an exception of this type ended."""
    if error_type is None or issubclass(error_type, (GeneratorExit, StopIteration, StopAsyncIteration)):
        return "ok"
    cancelled: Any = getattr(_modules.get("asyncio.exceptions"), "CancelledError", None)
    if cancelled is not None and issubclass(error_type, cancelled):
        return "cancelled"
    return "error"
