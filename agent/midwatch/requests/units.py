"""Units: outermost calls of root modules, on any thread. `enter` and `leave` run in the service's own threads."""

from __future__ import annotations

import itertools
import struct
import sys
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from midwatch.clock import Clock
from midwatch.drops import drops
from midwatch.guard import guard
from midwatch.model.workload import Workload
from midwatch.requests.tracker import Mark, Tracker
from midwatch.requests.workload import describe

_MAX_FINISHED = 16_384
_MANY = 20
_LONG_NS = 5_000_000_000
_CARRIED = 0.5
_ROUTE_MEMORY = 100
NUMBERS = ("start_ns", "end_ns", "unit_id", "thread_ident", "thread_id", "requests", "owner_id")
OTHERS = ("name", "thread_name", "workload")
"""The fields of `Unit` that a finished one keeps, in the order of `FinishedUnit`."""
_NUMBERS = struct.Struct(f"={len(NUMBERS)}q")
_pack = _NUMBERS.pack
_FIELDS = 1 + len(OTHERS)
FinishedUnit = tuple[bytes, str, str, Workload]
"""A finished unit: its `NUMBERS`, packed, and its `OTHERS`."""
_SCRIPTED = frozenset({"RecursiveScriptModule", "TopLevelTracedModule"})


class Unit:
    """One call of a root module; times are `Clock.perf_ns`."""

    __slots__ = (
        "end_ns", "mark", "name", "owner_id", "requests", "start_ns", "thread_id", "thread_ident", "thread_name",
        "unit_id", "workload",
    )  # fmt: skip

    unit_id: int
    name: str
    start_ns: int
    end_ns: int
    thread_id: int
    thread_ident: int
    thread_name: str
    requests: int
    owner_id: int
    """Of the request in whose context it ran; 0 where there is none."""
    mark: Mark | None
    """The request that it is by itself, where nothing else marks requests."""
    workload: Workload


class PastUnits(Protocol):
    """The units that ended last, as `midwatch.requests.ledger` keeps them."""

    def latest(self, start_ns: int, end_ns: int) -> Unit | None:
        """Return the last of those that share time with the interval."""
        ...

    def overlapping(self, start_ns: int, end_ns: int) -> list[Unit]:
        """Return all of them, the earliest end first."""
        ...


class _Here(threading.local):
    def __init__(self) -> None:
        self.calls: list[tuple[int, Unit | None]] = []
        """Root modules entered on this thread, by id; a nested one has no unit."""
        self.ident = threading.get_ident()
        self.native_id = threading.get_native_id()
        self.name = threading.current_thread().name


class Units:
    """Follows the calls of root modules."""

    def __init__(self, clock: Clock, tracker: Tracker) -> None:
        self._perf_ns = clock.perf_ns
        self._tracker = tracker
        self._here = _Here()
        self._ids = itertools.count(1)
        self._finished: deque[Any] = deque()
        """The fields of `FinishedUnit` of one after another, as `Tracker.end` keeps requests."""
        self._first_ns = 0
        self._begun = 0
        self.as_requests = False
        """Whether units are taken as requests, since nothing marks any."""

    def inside(self) -> bool:
        """Whether this thread is inside a known root module."""
        return bool(self._here.calls)

    def enter(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A root module's forward begins."""
        if self._tracker.off or _tracing():
            return
        calls = self._here.calls
        if calls:
            if all(key != id(module) for key, _ in calls):
                calls.append((id(module), None))
                return
            # It is entered anew without having been left: an exception that is no Exception passed through it.
            drops.drop("unit_unclosed", len(calls))
            calls.clear()
        calls.append((id(module), self._begin(module, args, kwargs)))

    def leave(self, module: Any) -> None:
        """A root module's forward has ended, or raised."""
        calls = self._here.calls
        while calls:
            key, unit = calls.pop()
            if unit is not None:
                self._finish(unit)
            if key == id(module):
                return

    def take(self, limit: int) -> list[FinishedUnit]:
        """Take out finished units as they were packed, the oldest first. For one thread at a time."""
        pop, count = self._finished.popleft, min(limit, self.finished())
        return [(pop(), pop(), pop(), pop()) for _ in range(count)]

    def finished(self) -> int:
        """Return how many finished units wait to be taken out."""
        return len(self._finished) // _FIELDS

    def drain(self) -> list[Unit]:
        """Take out all finished units, the oldest first."""
        return [_unpacked(finished) for finished in self.take(_MAX_FINISHED)]

    def explain(self, mark: Mark, past: PastUnits) -> None:
        """Give a request without a unit in its own context the workload of the last one that it waited for.

        Nothing tells whom a batcher's unit serves. A request that waits for one holds it whole, and so do all of its
        route; where most of a route end without, one that happens to be slow holds a stranger's.
        """
        if mark.workload is not None:
            return
        unit = self._inside(mark, past)
        route = mark.route
        route.asked = min(route.asked + 1, _ROUTE_MEMORY)
        route.carried += ((unit is not None) - route.carried) / route.asked
        if unit is not None and waits_for_units(mark):
            mark.workload = unit.workload

    def _inside(self, mark: Mark, past: PastUnits) -> Unit | None:
        """Return the last unit of no request's own that began and ended while this one ran."""
        unit = past.latest(mark.start_ns, mark.end_ns)
        if unit is None or _serves(unit, mark):
            return unit
        units = past.overlapping(mark.start_ns, mark.end_ns)
        return next((unit for unit in reversed(units) if _serves(unit, mark)), None)

    def _begin(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Unit:
        tracker, here = self._tracker, self._here
        unit = Unit()
        unit.unit_id = next(self._ids)
        unit.name = name_of(module)
        unit.thread_ident, unit.thread_id, unit.thread_name = here.ident, here.native_id, here.name
        unit.workload = describe(args, kwargs)
        self._begun += 1
        unit.mark = tracker.begin(unit.name, marked=False) if self._stand_in() else None
        owner = tracker.current()
        unit.owner_id = owner.request_id if owner is not None else 0
        unit.requests = 1 if owner is not None else tracker.count()
        if owner is not None and owner.workload is None:
            owner.workload = unit.workload
        unit.start_ns = self._perf_ns()
        tracker.unit_ran(here.ident, unit.start_ns)
        return unit

    def _finish(self, unit: Unit) -> None:
        unit.end_ns = self._perf_ns()
        if unit.mark is not None:
            self._tracker.end(unit.mark)
        if not unit.owner_id:
            unit.requests = max(unit.requests, self._tracker.count())
        self._tracker.unit_ran(unit.thread_ident, unit.end_ns)
        if len(self._finished) < _MAX_FINISHED * _FIELDS:
            self._finished.extend((
                _pack(unit.start_ns, unit.end_ns, unit.unit_id, unit.thread_ident, unit.thread_id, unit.requests,
                      unit.owner_id),
                unit.name, unit.thread_name, unit.workload,
            ))  # fmt: skip
        else:
            drops.drop("unit_queue_full")

    def _stand_in(self) -> bool:
        """Whether this unit is a request by itself: many units over some seconds, and nothing ever marked a request."""
        if self._tracker.marked:
            self.as_requests = False
        elif not self.as_requests:
            now_ns = self._perf_ns()
            self._first_ns = self._first_ns or now_ns
            self.as_requests = self._begun >= _MANY and now_ns - self._first_ns >= _LONG_NS
        return self.as_requests


def _unpacked(finished: FinishedUnit) -> Unit:
    unit = Unit()
    numbers, unit.name, unit.thread_name, unit.workload = finished
    (
        unit.start_ns, unit.end_ns, unit.unit_id, unit.thread_ident, unit.thread_id, unit.requests, unit.owner_id,
    ) = _NUMBERS.unpack(numbers)  # fmt: skip
    return unit


def waits_for_units(mark: Mark) -> bool:
    """Whether requests of this route wait for units that run in no request's context, as a batcher's do."""
    return mark.route.carried >= _CARRIED


def worked_for(mark: Mark, units: Iterable[Unit]) -> list[Unit]:
    """Return those of ``units`` that ran in the context of a request, or that it waited for."""
    waits = waits_for_units(mark)
    return [unit for unit in units if unit.owner_id == mark.request_id or (waits and not unit.owner_id)]


def _serves(unit: Unit, mark: Mark) -> bool:
    return not unit.owner_id and mark.start_ns <= unit.start_ns and unit.end_ns <= mark.end_ns


def name_of(module: Any) -> str:
    """Return the class name of a module, of the one inside where torch has wrapped it."""
    name = type(module).__name__
    if name == "OptimizedModule":
        return type(module._orig_mod).__name__  # noqa: SLF001 - there is no public way
    if name in _SCRIPTED:
        return str(module.original_name)
    return name


def _tracing() -> bool:
    """Whether `torch.jit` is tracing: reading a shape would become part of the traced graph."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    try:
        return torch._C._get_tracing_state() is not None  # noqa: SLF001 - there is no public way
    except AttributeError as error:
        guard.failed("units.tracing", error)
        return False
