"""Which figures may come from outside: those that can be true, and lists that an agent can fill.

A figure that cannot be true is left out, as if it had not been told: one odd reading must not cost the evidence around
it. Refused is only what would poison every sum and sort that it takes part in, or what nothing can be made of: a figure
that is no finite number, a list without end, and of series (statistics of routes, readings of devices and hosts) the
moments and counts themselves. Evidence and statuses whose moments lie outside of all years come from a host whose
clock is not set; they are dated by their reception, with their distances kept.

The bounds are far beyond anything that is ever seen, and they follow from the fields' names and defaults: a field that
is added to the contract is covered from its first day.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from datetime import datetime, timezone
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from midwatch.model.requests import LatencySketch, RouteStats
from midwatch.model.samples import GpuSample, HostSample
from midwatch.model.trace import Caveat
from midwatch.wire.codec import CLASSES
from midwatch_proto.v1 import capture_pb2, requests_pb2, spike_pb2, status_pb2

from midwatch_server.errors import FigureError

YEARS = (2020, 2100)
"""Moments lie from the first of these years to the last. A fixed time, not the collector's: its clock may be wrong."""
LONGEST_S = 10 * 366 * 86_400
MOST = 2**53
"""Counts and sizes: what JSON and a double hold exactly."""
SHARPEST = 1e-4
"""The least relative error that a sketch may claim; an agent's is 0.01."""
BUSIEST = 100
"""A cell of a timeline, in percent."""
MOST_ITEMS = 4_096
"""Of one list. The longest that an agent makes, the buckets of a sketch, has two thousand."""
MOST_FACTS = 512
"""Of one list of a summary, where an agent has 64 at most; rules set each of them beside each request."""
MOST_STARTS = 64
"""Moments of one fact; an agent gives eight."""

_NUMBERS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_INT64)
_PER_S = {"_ns": 1e9, "_us": 1e6, "_ms": 1e3}
_ROUNDED = 1e-3
"""A difference of two moments may come out a little below nothing."""
_POSITIONS = frozenset({"start_ms", "starts_ms"})
"""Moments relative to the start of a window: they may lie before it."""
_UNBOUND = frozenset({"Bucket.index", "LatencySketch.sum_ns"})
"""Looked at together with the sketch."""
_FOREIGN_CLOCKS = frozenset({"Window.start_unix_ns"})
"""As the trace has it; the clocks of some old ones began with their machine."""
_SERIES = frozenset({RouteStats, LatencySketch, GpuSample, HostSample})
"""What is summed and sorted later: without the figures that it must have it is nothing. So are messages that have no
class: pieces of traces, and pairs of a name and a count."""
_FIRST_NS, _LAST_NS = (int(datetime(year, 1, 1, tzinfo=timezone.utc).timestamp()) * 10**9 for year in YEARS)


@dataclass(slots=True)
class Mended:
    """What was changed in a record so that it could be taken."""

    count: int = 0
    """Figures that were left out, and items of lists that are nothing without one of theirs."""
    first: str = ""
    """The first of them, such as ``an impossible gpu_sample.temperature_c, -5``."""
    redated: bool = False
    """Whether it is dated by its reception."""

    def caveats(self) -> tuple[Caveat, ...]:
        """Return what a reader of the record must know."""
        found = []
        if self.count:
            were = (
                "1 figure could not be true and was" if self.count == 1 else f"{self.count} could not be true and were"
            )
            found.append(Caveat("figures_left_out", f"{were} left out: {self.first}", self.count))
        if self.redated:
            text = "The clock of its host was not set: its moments follow from when the collector received it"
            found.append(Caveat("clock_not_set", text))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _Bounds:
    name: str
    low: float
    high: float
    moment: bool = False
    optional: bool = False
    """Of a moment: it may be 0, which is not told."""
    vital: bool = False
    """The message is nothing without it."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be looked at in messages of one kind. Texts and flags are not: most of a message is text."""

    figures: tuple[_Bounds, ...]
    listed: tuple[_Bounds, ...]
    """Lists of figures."""
    parts: tuple[tuple[str, bool], ...]
    """Messages inside, and whether they must be there: those are looked at even where they are not."""
    lists: tuple[tuple[str, int], ...]
    """Lists of anything, and how long they may be."""
    items: tuple[str, ...]
    """Lists of messages."""
    sketch: bool


class _UnfitError(Exception):
    """A message without a figure that it is nothing without; the text names it."""


def checked(message: Message, what: str, received_unix_ns: int = 0) -> Mended:
    """Leave out of ``message``, in place, what cannot be true, and return what that was.

    ``what`` is what people call it: ``a spike``. Evidence and statuses of a host whose clock is not set are dated by
    ``received_unix_ns``, where it is not 0.

    Raises `FigureError` where it cannot be taken at all.
    """
    walk = _Walk(what, _shift_ns(message, received_unix_ns))
    try:
        walk.look(message, "")
    except _UnfitError as error:
        raise FigureError(f"{what} has {error}") from error
    return walk.mended


class _Walk:
    """One walk through a record."""

    def __init__(self, what: str, shift_ns: int) -> None:
        self.mended = Mended()
        self._what = what
        self._shift_ns = shift_ns

    def look(self, message: Any, path: str) -> None:
        """Look at a message and all inside of it."""
        plan = _plan(message.DESCRIPTOR)
        for bounds in plan.figures:
            figure = getattr(message, bounds.name)
            if not bounds.low <= figure <= bounds.high and (figure or not bounds.optional):
                self._mend(message, bounds, figure, path)
        for name, needed in plan.parts:
            if needed or message.HasField(name):
                self.look(getattr(message, name), f"{path}{name}.")
        for name, most in plan.lists:
            if (length := len(getattr(message, name))) > most:
                raise FigureError(f"{self._what} has {length} {path}{name}, and at most {most} are taken")
        for bounds in plan.listed:
            self._look_at_list(getattr(message, bounds.name), bounds, path)
        for name in plan.items:
            if items := getattr(message, name):
                self._look_at_items(items, f"{path}{name}.")
        if plan.sketch and not _adds_up(message):
            raise _UnfitError(f"a {path.rstrip('.') or 'sketch'} whose buckets contradict its count or its bounds")

    def _mend(self, message: Any, bounds: _Bounds, figure: float, path: str) -> None:
        if bounds.moment and self._shift_ns and bounds.low <= figure + self._shift_ns <= bounds.high:
            setattr(message, bounds.name, figure + self._shift_ns)
            self.mended.redated = True
            return
        fault = self._fault(bounds, figure, path)
        if bounds.vital:
            raise _UnfitError(fault)
        message.ClearField(bounds.name)
        self._left_out(fault)

    def _look_at_list(self, figures: Any, bounds: _Bounds, path: str) -> None:
        for index in reversed(range(len(figures))):
            if not bounds.low <= (figure := figures[index]) <= bounds.high:
                self._left_out(self._fault(bounds, figure, path))
                if bounds.name in _POSITIONS:
                    del figures[index]
                else:
                    figures[index] = 0

    def _look_at_items(self, items: Any, path: str) -> None:
        unfit = []
        for index, item in enumerate(items):
            try:
                self.look(item, path)
            except _UnfitError as error:  # noqa: PERF203 - one that is unfit costs itself alone
                self._left_out(str(error))
                unfit.append(index)
        for index in reversed(unfit):
            del items[index]

    def _fault(self, bounds: _Bounds, figure: float, path: str) -> str:
        """Return what is wrong with a figure. Raises `FigureError` where it is no finite number."""
        at = path + bounds.name
        if not math.isfinite(figure):
            raise FigureError(f"{self._what} has no finite {at}")
        if bounds.moment:
            return f"a {at} outside of the years {YEARS[0]} to {YEARS[1] - 1}; set the clock of its host"
        return f"an impossible {at}, {figure:.6g}"

    def _left_out(self, fault: str) -> None:
        self.mended.count += 1
        self.mended.first = self.mended.first or fault


def _shift_ns(message: Any, received_unix_ns: int) -> int:
    """Return what to add to moments outside of all years, so that the record ended when it was received; 0 for none."""
    if not received_unix_ns:
        return 0
    if isinstance(message, status_pb2.AgentStatus):
        ended_ns = message.unix_ns
    elif isinstance(message, spike_pb2.Spike) and message.HasField("request"):
        duration_ns = message.request.duration_ns
        ended_ns = message.request.start_unix_ns + (duration_ns if 0 <= duration_ns <= LONGEST_S * 1e9 else 0)
    elif isinstance(message, capture_pb2.Capture):
        ended_ns = message.end_unix_ns or message.start_unix_ns or message.ordered_unix_ns or _FIRST_NS
    else:
        return 0
    return 0 if _FIRST_NS <= ended_ns <= _LAST_NS else received_unix_ns - int(ended_ns)


@cache
def _plan(descriptor: Descriptor) -> _Plan:
    cls = CLASSES.get(descriptor.full_name)
    defaults = {field.name: field.default for field in fields(cls)} if cls else {}
    figures: list[_Bounds] = []
    listed: list[_Bounds] = []
    parts: list[tuple[str, bool]] = []
    lists: list[tuple[str, int]] = []
    items: list[str] = []
    most = MOST_FACTS if descriptor.name == "TraceSummary" else MOST_ITEMS
    for field in descriptor.fields:
        default = defaults.get(field.name, MISSING)
        repeated = _repeated(field)
        if repeated:
            lists.append((field.name, MOST_STARTS if field.name == "starts_ms" else most))
        if field.cpp_type in _NUMBERS:
            vital = cls is None or (default is MISSING and cls in _SERIES)
            if (found := _bounds(descriptor, field, default, vital=vital)) is not None:
                (listed if repeated else figures).append(found)
        elif field.message_type is not None and repeated:
            items.append(field.name)
        elif field.message_type is not None:
            parts.append((field.name, cls is not None and default is MISSING))
    sketch = descriptor is requests_pb2.LatencySketch.DESCRIPTOR
    return _Plan(tuple(figures), tuple(listed), tuple(parts), tuple(lists), tuple(items), sketch)


def _repeated(field: FieldDescriptor) -> bool:
    known = getattr(field, "is_repeated", None)  # protobuf before 6 has a label instead
    return bool(getattr(field, "label", 0) == FieldDescriptor.LABEL_REPEATED if known is None else known)


def _bounds(descriptor: Descriptor, field: FieldDescriptor, default: Any, *, vital: bool) -> _Bounds | None:
    name, owned = field.name, f"{descriptor.name}.{field.name}"
    if owned in _UNBOUND or name.endswith(("_id", "_ident")):
        return None
    if name.endswith("unix_ns"):
        first = 0 if owned in _FOREIGN_CLOCKS else _FIRST_NS
        told = default is MISSING
        return _Bounds(name, first, _LAST_NS, moment=True, optional=not told, vital=told)
    least = min(default, 0) if isinstance(default, (int, float)) else 0
    least -= _ROUNDED if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE else 0
    longest = LONGEST_S * _PER_S.get(name[-3:], 0)
    if name in _POSITIONS:
        return _Bounds(name, -longest, longest, vital=vital)
    if longest:
        return _Bounds(name, least, longest, vital=vital)
    if name == "share":
        return _Bounds(name, least, 1 + _ROUNDED, vital=vital)
    return _Bounds(name, least, BUSIEST if name == "cells" else MOST, vital=vital)


def _adds_up(sketch: requests_pb2.LatencySketch) -> bool:
    """Return whether any latencies at all could make such a sketch."""
    if not SHARPEST <= sketch.alpha < 1:
        return False
    farthest = math.log(LONGEST_S * 1e9) / math.log((1 + sketch.alpha) / (1 - sketch.alpha)) + 1
    indexes = [bucket.index for bucket in sketch.buckets]
    return (
        sum(bucket.count for bucket in sketch.buckets) == sketch.count
        and sketch.min_ns <= sketch.max_ns
        and sketch.min_ns * sketch.count <= sketch.sum_ns <= sketch.max_ns * sketch.count
        and all(bucket.count > 0 and abs(bucket.index) <= farthest for bucket in sketch.buckets)
        and indexes == sorted(set(indexes))
    )
