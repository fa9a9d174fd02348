"""Events as columns: one table a category, names and shapes interned, times as integers."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midwatch.trace.events import Args, Event, Key
from midwatch.trace.intervals import Ints, Mask

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


class Interner(dict[Any, int]):
    """Numbers things in the order in which they come."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


@dataclass(slots=True)
class Interned:
    """What the numbers in the tables stand for."""

    names: Interner = field(default_factory=Interner)
    lanes: Interner = field(default_factory=Interner)
    """``("host", pid, tid)`` and ``("device", device, stream)``."""
    shapes: Interner = field(default_factory=Interner)
    """Pairs of raw JSON text."""


class Columns:
    """Collects batches of events into tables."""

    def __init__(self) -> None:
        self.interned = Interned()
        self.thread_names: dict[tuple[Key, Key], str] = {}
        self.events = 0
        self.other: dict[str, int] = {}
        self.groups: dict[tuple[int, int], tuple[str, str]] = {}
        """Process group and collective: of kernels by correlation, of operators by external id."""
        self.bad_numbers = 0
        self._parts: dict[int, list[Table]] = {category: [] for category in range(SPAN + 1)}

    def add(self, events: list[Event]) -> None:
        """Take one batch; the events are not kept."""
        self.events += len(events)
        buckets: dict[int, list[Event]] = {}
        for event in events:
            if event.ph != "X":
                if event.ph == "M":
                    self._name_thread(event)
                continue
            category = CATEGORIES.get(event.cat or "", -1)
            if category < 0:
                cat = event.cat or "none"
                self.other[cat] = self.other.get(cat, 0) + 1
                continue
            if category == OPS and type(event.name) is str and event.name.startswith("ProfilerStep#"):
                category = ANNOTATIONS
            buckets.setdefault(category, []).append(event)
        for category, bucket in buckets.items():
            self._parts[category].append(self._table(category, bucket))

    def table(self, *categories: int) -> Table:
        """All events of the categories, as they came; their parts are given up."""
        parts = [part for category in categories for part in self._parts[category]]
        for category in categories:
            self._parts[category] = []
        return Table.joined(parts)

    def _table(self, category: int, events: list[Event]) -> Table:
        names, lanes = self.interned.names, self.interned.lanes
        start = nanoseconds([e.ts for e in events])
        length = nanoseconds([e.dur for e in events])
        lost = (start == LOST) | (length == LOST)
        self.bad_numbers += int(lost.sum())
        length[length == LOST] = 0
        args = [e.args if type(e.args) is Args else _NO_ARGS for e in events]
        if category in _DEVICE:
            lane = [
                lanes["device", whole(a.device if a.device is not None else e.pid), whole(a.stream, e.tid)]
                for a, e in zip(args, events, strict=True)
            ]
        else:
            lane = [lanes["host", e.pid, e.tid] for e in events]
        if category in {KERNEL, OPS}:
            self._note_groups(category, args)
        count = len(events)
        return Table(
            start=start,
            end=np.where(start == LOST, LOST, start + length),
            lane=np.array(lane, np.int64),
            name=np.array([names[e.name if type(e.name) is str else str(e.name)] for e in events], np.int64),
            link=_numbers([a.correlation for a in args]),
            ext=_numbers([a.external if a.external is not None else a.external_old for a in args]),
            size=_numbers([a.bytes for a in args]) if category == MEMCPY else np.full(count, -1, np.int64),
            shape=self._shapes(category, args),
            kind=np.full(count, category, np.int64),
        )

    def _shapes(self, category: int, args: list[Args]) -> Ints:
        shapes = self.interned.shapes
        if category == OPS:
            found = [shapes[bytes(a.dims) or bytes(a.dims_old), bytes(a.types)] for a in args]
        elif category == KERNEL:
            found = [shapes[bytes(a.grid), bytes(a.block)] for a in args]
        else:
            return np.full(len(args), -1, np.int64)
        return np.array(found, np.int64)

    def _note_groups(self, category: int, args: list[Args]) -> None:
        for a in args:
            if a.group is not None:
                key = whole(a.correlation if category == KERNEL else a.external)
                self.groups[category, key] = (str(a.group), str(a.collective or ""))

    def _name_thread(self, event: Event) -> None:
        if event.name == "thread_name" and type(event.args) is Args and type(event.args.name) is str:
            self.thread_names[event.pid, event.tid] = event.args.name


_NO_ARGS = Args()


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
        return np.array([-1 if v is None else v for v in values], np.int64)
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
