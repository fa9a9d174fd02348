"""Units: outermost calls of root modules, on any thread. `enter` and `leave` run in the service's own threads."""

from __future__ import annotations

import itertools
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from midwatch.clock import Clock
from midwatch.drops import drops
from midwatch.guard import guard
from midwatch.model.workload import Workload
from midwatch.requests.tracker import Here, Mark, Thread, Tracker
from midwatch.requests.workload import Inputs

_MAX_FINISHED = 16_384
_MANY = 20
_LONG_NS = 5_000_000_000
_SEEN_NS = 1_000_000_000
"""A unit that took longer is seen on its thread once more at its end."""
_CARRIED = 0.5
_ROUTE_MEMORY = 100
NUMBERS = ("start_ns", "end_ns", "requests", "owner_id", "unit_id")
OTHERS = ("name", "thread", "workload")
"""The fields of `Unit` that a finished one keeps, in the order of `FinishedUnit`."""
_NUMBERS = struct.Struct(f"={len(NUMBERS)}q")
_pack = _NUMBERS.pack
_FIELDS = len(NUMBERS) - 1 + len(OTHERS)
"""Of one in the queue, where it has no id yet."""
FinishedUnit = tuple[bytes, str, Thread, Workload]
"""A finished unit: its `NUMBERS`, packed, and its `OTHERS`."""
_SCRIPTED = frozenset({"RecursiveScriptModule", "TopLevelTracedModule"})


class Unit:
    """One call of a root module; times are `Clock.perf_ns`."""

    __slots__ = ("end_ns", "name", "owner_id", "requests", "start_ns", "thread", "unit_id", "workload")

    unit_id: int
    name: str
    start_ns: int
    end_ns: int
    thread: Thread
    requests: int
    owner_id: int
    """Of the request in whose context it ran; 0 where there is none."""
    workload: Workload


class PastUnits(Protocol):
    """The units that ended last, as `midwatch.requests.ledger` keeps them."""

    def latest(self, start_ns: int, end_ns: int) -> Unit | None:
        """Return the last of those that share time with the interval."""
        ...

    def overlapping(self, start_ns: int, end_ns: int) -> list[Unit]:
        """Return all of them, the earliest end first."""
        ...


_Call = tuple[int, int, int, int, Workload | None, Mark | None]
"""A root module's call that goes on: the module's id; start, requests, owner and workload of its `Unit`; and the
request that it is by itself, where nothing else marks requests. One inside of another has no start and is no unit.
"""


class _Here(threading.local):
    def __init__(self) -> None:
        calls: list[_Call] = []
        self.mine = calls, Here().thread
        """The calls on this thread, the outermost first, and the thread. Together: to ask for each is dear."""


class Root:
    """What is known of a root module, for both of its hooks."""

    __slots__ = ("inputs", "name", "tracing")

    def __init__(self, module: Any) -> None:
        self.name = name_of(module)
        self.inputs = Inputs()
        self.tracing: Callable[[], object] = _tracing_state()
        """Returns what `torch.jit` is tracing, or None."""


class Units:
    """Follows the calls of root modules."""

    def __init__(self, clock: Clock, tracker: Tracker) -> None:
        self._perf_ns = clock.perf_ns
        self._tracker = tracker
        self._current = tracker.context
        self._here = _Here()
        self._ids = itertools.count(1)
        self._finished: deque[Any] = deque()
        """One after another and not as tuples: those that wait would bring the garbage collector."""
        self._first_ns = 0
        self._begun = 0
        self.as_requests = False
        """Whether units are taken as requests, since nothing marks any."""

    def inside(self) -> bool:
        """Whether this thread is inside a known root module."""
        return bool(self._here.mine[0])

    def enter(self, root: Root, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A root module's forward begins."""
        tracker = self._tracker
        # While `torch.jit` is tracing, reading a shape would become part of the traced graph.
        if tracker.off or root.tracing() is not None:
            return
        calls, thread = self._here.mine
        if calls and self._nested(calls, id(module)):
            return
        mark = None if tracker.marked and not self.as_requests else self._stand_in(root.name)
        workload = root.inputs.describe(args, kwargs)
        owner = self._current.get()
        if owner is None or owner.end_ns:
            requests, owner_id = tracker.count(), 0
        else:
            requests, owner_id = 1, owner.request_id
            if owner.workload is None:
                owner.workload = workload
        tracker.unit_seen[thread[0]] = start_ns = self._perf_ns()
        calls.append((id(module), start_ns, requests, owner_id, workload, mark))

    def leave(self, root: Root, module: Any) -> None:
        """A root module's forward has ended, or raised."""
        end_ns = self._perf_ns()
        calls, thread = self._here.mine
        while calls:
            key, start_ns, requests, owner_id, workload, mark = calls.pop()
            if start_ns:
                tracker, finished = self._tracker, self._finished
                if mark is not None:
                    tracker.end(mark)
                if not owner_id:
                    requests = max(requests, tracker.count())
                if end_ns - start_ns > _SEEN_NS:
                    tracker.unit_seen[thread[0]] = end_ns
                if len(finished) < _MAX_FINISHED * _FIELDS:
                    finished.extend((start_ns, end_ns, requests, owner_id, root.name, thread, workload))
                else:
                    drops.drop("unit_queue_full")
            if key == id(module):
                return

    def take(self, limit: int) -> list[FinishedUnit]:
        """Take out finished units, the oldest first. For one thread at a time."""
        pop, taken = self._finished.popleft, []
        for _ in range(min(limit, self.finished())):
            numbers = _pack(pop(), pop(), pop(), pop(), next(self._ids))
            taken.append((numbers, pop(), pop(), pop()))
        return taken

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

    def _nested(self, calls: list[_Call], key: int) -> bool:
        """Note a root module's call inside of another's, which is no unit; return whether it is one."""
        if all(call[0] != key for call in calls):
            calls.append((key, 0, 0, 0, None, None))
            return True
        # It is entered anew without having been left: an exception that is no Exception passed through it.
        drops.drop("unit_unclosed", len(calls))
        calls.clear()
        return False

    def _stand_in(self, name: str) -> Mark | None:
        """Begin a request that this unit is by itself: after many units over some seconds, where nothing marks any."""
        tracker = self._tracker
        if tracker.marked:
            self.as_requests = False
            return None
        if not self.as_requests:
            now_ns = self._perf_ns()
            self._begun += 1
            self._first_ns = self._first_ns or now_ns
            self.as_requests = self._begun >= _MANY and now_ns - self._first_ns >= _LONG_NS
        return tracker.begin(name, marked=False) if self.as_requests else None


def _unpacked(finished: FinishedUnit) -> Unit:
    unit = Unit()
    numbers, unit.name, unit.thread, unit.workload = finished
    unit.start_ns, unit.end_ns, unit.requests, unit.owner_id, unit.unit_id = _NUMBERS.unpack(numbers)
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


def _tracing_state() -> Callable[[], object]:
    try:
        return sys.modules["torch"]._C._get_tracing_state  # type: ignore[no-any-return] # noqa: SLF001 - no public way
    except (AttributeError, KeyError) as error:
        guard.failed("units.tracing", error)
        return lambda: None
