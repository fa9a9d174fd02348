"""Which figures may come from outside: those that can be true, and lists that an agent can fill.

A duration that is no number, or a moment in 1970, would poison every sum, sort and average that it takes part in, and
so a record that holds one is refused as a whole. The bounds are far beyond anything that is ever seen, and they follow
from the fields' names and defaults: a field that is added to the contract is covered from its first day.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from datetime import datetime, timezone
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from midwatch.wire.codec import MESSAGES
from midwatch_proto.v1 import requests_pb2

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

_DOUBLE = FieldDescriptor.CPPTYPE_DOUBLE
_PER_S = {"_ns": 1e9, "_us": 1e6, "_ms": 1e3}
_ROUNDED = 1e-3
"""A difference of two moments may come out a little below nothing."""
_POSITIONS = frozenset({"start_ms", "starts_ms"})
"""Moments relative to the start of a window: they may lie before it."""
_UNBOUND = frozenset({"Bucket.index"})
"""Looked at together with the sketch."""
_FOREIGN_CLOCKS = frozenset({"Window.start_unix_ns"})
"""As the trace has it; the clocks of some old ones began with their machine."""
_FIRST_NS, _LAST_NS = (int(datetime(year, 1, 1, tzinfo=timezone.utc).timestamp()) * 10**9 for year in YEARS)


_CLASSES: dict[str, type[Any]] = {message.DESCRIPTOR.full_name: cls for cls, message in MESSAGES.items()}


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: float
    high: float
    moment: bool = False
    needed: bool = True
    """Of a moment: whether it must be told. One that need not may be 0."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be looked at in messages of one kind."""

    bounds: dict[str, _Bounds]
    moments: tuple[str, ...]
    """Those that must be told."""
    parts: tuple[str, ...]
    """Messages that must be there, and are looked at even where they are not."""
    most_items: int


def checked(message: Message, what: str) -> None:
    """Raise `FigureError` where a figure of ``message``, or of one inside of it, cannot be true.

    ``what`` is what people call it: ``a spike``.
    """
    _check(message, what, "")


def _check(message: Any, what: str, path: str) -> None:
    plan = _plan(message.DESCRIPTOR)
    for name in plan.moments:
        if not getattr(message, name):
            raise FigureError(_sentence(what, path + name, plan.bounds[name], 0))
    for name in plan.parts:
        if not message.HasField(name):
            _check(getattr(message, name), what, f"{path}{name}.")
    for field, value in message.ListFields():
        at = path + field.name
        listed: Any = (value,) if isinstance(value, (int, float, str, bytes, Message)) else value
        most = MOST_STARTS if field.name == "starts_ms" else plan.most_items
        if len(listed) > most:
            raise FigureError(f"{what} has {len(listed)} {at}, and at most {most} are taken")
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for item in listed:
                _check(item, what, f"{at}.")
        elif (bounds := plan.bounds.get(field.name)) is not None:
            for figure in listed:
                if not bounds.low <= figure <= bounds.high:
                    raise FigureError(_sentence(what, at, bounds, figure))
    if isinstance(message, requests_pb2.LatencySketch) and not _adds_up(message):
        raise FigureError(f"{what} has a {path.rstrip('.')} whose buckets contradict its count or its bounds")


def _sentence(what: str, at: str, bounds: _Bounds, figure: float) -> str:
    if not math.isfinite(figure):
        return f"{what} has no finite {at}"
    if bounds.moment:
        return f"{what} has a {at} outside of the years {YEARS[0]} to {YEARS[1] - 1}; set the clock of its host"
    return f"{what} has an impossible {at}, {figure:.6g}"


@cache
def _plan(descriptor: Descriptor) -> _Plan:
    cls = _CLASSES.get(descriptor.full_name)
    defaults = {field.name: field.default for field in fields(cls)} if cls else {}
    bounds: dict[str, _Bounds] = {}
    parts: list[str] = []
    for field in descriptor.fields:
        default = defaults.get(field.name, MISSING)
        if field.cpp_type in (_DOUBLE, FieldDescriptor.CPPTYPE_INT64):
            found = _bounds(f"{descriptor.name}.{field.name}", field.name, default, rounded=field.cpp_type == _DOUBLE)
            if found is not None:
                bounds[field.name] = found
        elif field.message_type is not None and field.has_presence and cls is not None and default is MISSING:
            parts.append(field.name)
    moments = tuple(name for name, found in bounds.items() if found.moment and found.needed)
    return _Plan(bounds, moments, tuple(parts), MOST_FACTS if descriptor.name == "TraceSummary" else MOST_ITEMS)


def _bounds(owned: str, name: str, default: Any, *, rounded: bool) -> _Bounds | None:
    if owned in _UNBOUND or name.endswith(("_id", "_ident")):
        return None
    if name.endswith("unix_ns"):
        first = 0 if owned in _FOREIGN_CLOCKS else _FIRST_NS
        return _Bounds(first, _LAST_NS, moment=True, needed=default is MISSING)
    least = min(default, 0) if isinstance(default, (int, float)) else 0
    least -= _ROUNDED if rounded else 0
    longest = LONGEST_S * _PER_S.get(name[-3:], 0)
    if name in _POSITIONS:
        return _Bounds(-longest, longest)
    if longest:
        return _Bounds(least, longest)
    if name == "share":
        return _Bounds(least, 1 + _ROUNDED)
    return _Bounds(least, BUSIEST if name == "cells" else MOST)


def _adds_up(sketch: requests_pb2.LatencySketch) -> bool:
    """Return whether any latencies at all could make such a sketch."""
    if not SHARPEST <= sketch.alpha < 1:
        return False
    farthest = math.log(LONGEST_S * 1e9) / math.log((1 + sketch.alpha) / (1 - sketch.alpha)) + 1
    indexes = [bucket.index for bucket in sketch.buckets]
    return (
        sum(bucket.count for bucket in sketch.buckets) == sketch.count
        and sketch.min_ns <= sketch.max_ns
        and all(bucket.count > 0 and abs(bucket.index) <= farthest for bucket in sketch.buckets)
        and indexes == sorted(set(indexes))
    )
