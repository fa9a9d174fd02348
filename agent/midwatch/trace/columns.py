"""Events as columns: one table a category, names and shapes interned, times as integers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields, replace
from itertools import compress
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from midwatch.trace.ceiling import (
    BASE_BYTES,
    CALL_BYTES,
    LEAST_BYTES,
    MEMORY_BYTES,
    ROW_BYTES,
    WORK_BYTES,
    Interner,
)
from midwatch.trace.events import NO_ARGS, Args, Event, Key
from midwatch.trace.intervals import NONE, Ints, Mask, distinct

OPS, ANNOTATIONS, RUNTIME, KERNEL, MEMCPY, MEMSET, SYNC, OVERHEAD, PYTHON, SPAN = range(10)

CATEGORIES = {
    "cpu_op": OPS, "Operator": OPS,
    "user_annotation": ANNOTATIONS,
    "cuda_runtime": RUNTIME, "cuda_driver": RUNTIME, "Runtime": RUNTIME, "hip_runtime": RUNTIME, "hip_driver": RUNTIME,
    "xpu_runtime": RUNTIME,
    "kernel": KERNEL, "Kernel": KERNEL,
    "gpu_memcpy": MEMCPY, "Memcpy": MEMCPY,
    "gpu_memset": MEMSET, "Memset": MEMSET,
    "cuda_sync": SYNC,
    "overhead": OVERHEAD,
    "python_function": PYTHON,
    "Trace": SPAN,
}  # fmt: skip
"""Names of today and of 2021. What is not here (memory events, flow arrows, other makers' lanes) is only counted."""

_DEVICE = {KERNEL, MEMCPY, MEMSET, SYNC}
_COSTS = {RUNTIME: CALL_BYTES, KERNEL: WORK_BYTES, MEMCPY: WORK_BYTES, MEMSET: WORK_BYTES}
_STEP = "ProfilerStep#"
_MOST_OTHER, _MOST_THREADS, _MOST_GROUPS = 256, 1 << 16, 1 << 16
_MOST_BYTES = 1 << 44
"""Of one copy: more than any device holds is no size, and a few of those are no number in 64 bits together."""
LOST = np.iinfo(np.int64).min
"""A time that is no number."""


@dataclass(frozen=True, slots=True)
class Table:
    """One category, a row an event. Times are nanoseconds; -1 stands for what an event does not tell."""

    start: Ints
    end: Ints
    lane: Ints
    """Index into `Interned.lanes`: a host thread, or a stream of a device."""
    name: Ints
    link: Ints
    """``correlation``."""
    ext: Ints
    """``External id``."""
    size: Ints
    """Bytes of a copy."""
    shape: Ints
    """Index into `Interned.shapes`: input dimensions and types of an operator, grid and block of a kernel."""
    kind: Ints
    """The category, for tables that hold several."""

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Ints | Mask) -> Table:
        """Return the rows chosen by index or mask."""
        return Table(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def shifted(self, by: int) -> Table:
        """Move all times by ``by`` nanoseconds."""
        return replace(self, start=self.start + by, end=self.end + by)

    def sorted(self) -> Table:
        """Order by start, outer intervals first."""
        return self.take(np.lexsort((-self.end, self.start)))

    @classmethod
    def joined(cls, tables: list[Table]) -> Table:
        """Put several tables into one."""
        if not tables:
            return cls(**{f.name: np.empty(0, np.int64) for f in fields(cls)})
        return cls(**{f.name: np.concatenate([getattr(t, f.name) for t in tables]) for f in fields(cls)})


@dataclass(slots=True)
class Interned:
    """What the numbers in the tables stand for."""

    names: Interner = field(default_factory=Interner)
    lanes: Interner = field(default_factory=Interner)
    """``("host", pid, tid)`` and ``("device", device, stream)``."""
    shapes: Interner = field(default_factory=Interner)
    """Pairs of raw JSON text."""

    @property
    def bytes(self) -> int:
        """What they take in memory."""
        return self.names.bytes + self.lanes.bytes + self.shapes.bytes


class Columns:
    """Collects batches of events into tables, in bounded memory.

    A trace that needs more is cut in time: the later half of what was read is given up, in all tables, and what starts
    later is left out from there on. So what is left is whole for as long as it lasts, whatever the order of the file.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._room = max(memory_bytes, LEAST_BYTES) - BASE_BYTES
        self._cost = 0
        self.cut_ns: int | None = None
        """Events that start from here on are left out."""
        self.latest_ns = LOST
        """The latest start seen, left out or not."""
        self.full = False
        """True where cutting did not help: no more can be taken."""
        self.interned = Interned()
        self.thread_names: dict[tuple[Key, Key], str] = {}
        self.events = 0
        self.other: dict[str, int] = {}
        self.groups: dict[tuple[int, int], tuple[str, str]] = {}
        """Process group and collective: of kernels by correlation, of operators by external id."""
        self.bad_numbers = 0
        self._known_streams: dict[tuple[Key, Key, Key, Key], int] = {}
        self._parts: dict[int, list[Table]] = {category: [] for category in range(SPAN + 1)}

    def add(self, events: list[Event]) -> None:
        """Take one batch; the events are not kept."""
        self.events += len(events)
        found: defaultdict[str | None, list[Event]] = defaultdict(list)
        for event in events:
            if event.ph == "X":
                found[event.cat].append(event)
            elif event.ph == "M":
                self._name_thread(event)
        for cat, some in found.items():
            category = CATEGORIES.get(cat or "", -1)
            if category >= 0:
                self._take(category, some)
            else:
                known = cat or "none"
                known = known if known in self.other or len(self.other) < _MOST_OTHER else "others"
                self.other[known] = self.other.get(known, 0) + len(some)
        if self._cost + self.interned.bytes > self._room:
            self._cut()

    def table(self, *categories: int) -> Table:
        """All events of the categories, as they came; their parts are given up."""
        parts = [part for category in categories for part in self._parts[category]]
        for category in categories:
            self._parts[category] = []
        return Table.joined(parts)

    def _take(self, category: int, events: list[Event]) -> None:
        names = [e.name if type(e.name) is str else str(e.name) for e in events]
        if category == OPS and any(name.startswith(_STEP) for name in set(names)):
            steps = [name.startswith(_STEP) for name in names]
            self._add(ANNOTATIONS, list(compress(events, steps)), list(compress(names, steps)))
            others = [not step for step in steps]
            events, names = list(compress(events, others)), list(compress(names, others))
        self._add(category, events, names)

    def _add(self, category: int, events: list[Event], names: list[str]) -> None:
        if not events:
            return
        start = nanoseconds([e.ts for e in events])
        length = nanoseconds([e.dur for e in events])
        lost = (start == LOST) | (length == LOST)
        self.bad_numbers += int(lost.sum())
        length[length == LOST] = 0
        none = np.full(len(events), -1, np.int64)
        link = ext = size = shape = none
        args = [] if category == PYTHON else [e.args if type(e.args) is Args else NO_ARGS for e in events]
        if args:
            link = _numbers([a.correlation for a in args])
            ext = _numbers([a.external for a in args])
            if ext.min() < 0:
                ext = np.where(ext < 0, _numbers([a.external_old for a in args]), ext)
        if category in {KERNEL, OPS}:
            self._note_groups(category, args)
        if category == MEMCPY:
            size = _numbers([a.bytes for a in args])
            size = np.where(size > _MOST_BYTES, -1, size)
        elif category == OPS:
            dims = _texts([a.dims for a in args])
            shape = self._shapes(dims if any(dims) else _texts([a.dims_old for a in args]), [a.types for a in args])
        elif category == KERNEL:
            shape = self._shapes(_texts([a.grid for a in args]), [a.block for a in args])
        lane = self._streams(events, args) if category in _DEVICE else self._threads(events)
        self._keep(
            category,
            Table(
                start=start,
                end=np.where(start == LOST, LOST, start + length),
                lane=np.array(lane, np.int64),
                name=np.array(list(map(self.interned.names.__getitem__, names)), np.int64),
                link=link,
                ext=ext,
                size=size,
                shape=shape,
                kind=np.full(len(events), category, np.int64),
            ),
        )

    def _keep(self, category: int, table: Table) -> None:
        if category != SPAN and len(table):
            self.latest_ns = max(self.latest_ns, int(table.start.max()))
            if self.cut_ns is not None:
                table = table.take(table.start < self.cut_ns)
        self._cost += len(table) * _COSTS.get(category, ROW_BYTES)
        self._parts[category].append(table)

    def _cut(self) -> None:
        """Give up the later half of what there is, and the names that only it used."""
        tables = [part for category, parts in self._parts.items() if category != SPAN for part in parts]
        starts = np.concatenate([NONE, *(table.start for table in tables)])
        starts = starts[starts != LOST]
        cut = int(np.median(starts)) if len(starts) else 0
        if not (starts < cut).any():
            self.full = True
            return
        parts, self._parts = self._parts, {category: [] for category in range(SPAN + 1)}
        self.cut_ns, self._cost = cut, 0
        for category, some in parts.items():
            self._keep(category, Table.joined(some))
        for column in ("name", "shape"):
            self._forget(column)
        self.full = self.interned.bytes > self._room // 2

    def _forget(self, column: str) -> None:
        """Number anew what the rows that are left use of the names or shapes."""
        interner: Interner = getattr(self.interned, f"{column}s")
        tables = [(category, part) for category, parts in self._parts.items() for part in parts]
        numbers = np.concatenate([NONE, *(getattr(part, column) for _, part in tables)])
        used = distinct(numbers[numbers >= 0])
        renumbered = np.full(len(interner) + 1, -1, np.int64)
        renumbered[used] = np.arange(len(used))
        keys, fresh = list(interner), Interner()
        for number in used.tolist():
            fresh[keys[number]]  # numbers it
        setattr(self.interned, f"{column}s", fresh)
        for category, part in tables:
            self._parts[category] = [replace(part, **{column: renumbered[getattr(part, column)]})]

    def _shapes(self, first: list[bytes], second: list[msgspec.Raw]) -> Ints:
        pairs = zip(first, _texts(second), strict=True)
        return np.array(list(map(self.interned.shapes.__getitem__, pairs)), np.int64)

    def _threads(self, events: list[Event]) -> list[int]:
        lanes = self.interned.lanes
        if len({e.pid for e in events}) > 1:
            return [lanes["host", e.pid, e.tid] for e in events]
        tids = [e.tid for e in events]
        lane_of = {tid: lanes["host", events[0].pid, tid] for tid in dict.fromkeys(tids)}
        return [lane_of[tid] for tid in tids]

    def _streams(self, events: list[Event], args: list[Args]) -> list[int]:
        known, lanes = self._known_streams, self.interned.lanes
        found = []
        for event, arg in zip(events, args, strict=True):
            key = arg.device, event.pid, arg.stream, event.tid
            lane = known.get(key, -1)
            if lane < 0:
                device = whole(event.pid if arg.device is None else arg.device)
                lane = known[key] = lanes["device", device, whole(arg.stream, event.tid)]
            found.append(lane)
        return found

    def _note_groups(self, category: int, args: list[Args]) -> None:
        for a in args:
            if a.group is not None and len(self.groups) < _MOST_GROUPS:
                key = whole(a.correlation if category == KERNEL else a.external)
                self.groups[category, key] = (str(a.group), str(a.collective or ""))

    def _name_thread(self, event: Event) -> None:
        if (
            event.name == "thread_name"
            and len(self.thread_names) < _MOST_THREADS
            and type(event.args) is Args
            and type(event.args.name) is str
        ):
            self.thread_names[event.pid, event.tid] = event.args.name


def _texts(raws: list[msgspec.Raw]) -> list[bytes]:
    return list(map(bytes, raws))


def nanoseconds(values: list[Any]) -> Ints:
    """Microseconds of any spelling as whole nanoseconds; what is no number becomes the lowest integer."""
    micros = _floats(values)
    good = np.isfinite(micros) & (np.abs(micros) < 9e15)
    micros = np.where(good, micros, 0.0)
    whole_part = np.floor(micros)
    nanos = whole_part.astype(np.int64) * 1000 + np.rint((micros - whole_part) * 1000).astype(np.int64)
    return np.where(good, nanos, LOST)


def _floats(values: list[Any]) -> NDArray[np.float64]:
    try:
        return np.array(values, np.float64)
    except (ValueError, TypeError):
        return np.array([_as_float(v) for v in values], np.float64)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except (ValueError, TypeError):
        return float("nan")


def _numbers(values: list[Key]) -> Ints:
    try:
        return np.array(values, np.int64)
    except (ValueError, TypeError, OverflowError):
        return np.array([whole(v) for v in values], np.int64)


def whole(value: Key, other: Key = None) -> int:
    """Read an integer of any spelling, ``other`` where ``value`` is None, -1 where neither is one in 64 bits."""
    chosen = other if value is None else value
    try:
        number = int(chosen if chosen is not None else -1)
    except (ValueError, TypeError, OverflowError):
        return -1
    return number if -(1 << 63) <= number < (1 << 63) else -1
