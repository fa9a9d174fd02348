"""JSON in pieces: to write a value with hundreds of stacks at once would hold the GIL for milliseconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from midwatch.model.plain import field_names

_CHUNK = 3
"""Items of a list that are written at once: with stacks of 48 frames some two hundred microseconds."""


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value that has been written as JSON already; a frame of the socket may hold it in the value's place."""

    text: str


def in_pieces(value: Any, give_way: Callable[[], None]) -> JsonText:
    """Return the JSON of the frozen value ``value``, that of `to_plain`; ``give_way`` is called between the pieces."""
    return JsonText("".join(pieces(value, give_way)))


def list_in_pieces(values: Sequence[object], give_way: Callable[[], None]) -> JsonText:
    """Return the JSON of several frozen values, as a list."""
    return JsonText("".join(_items(values, give_way)))


def pieces(value: Any, give_way: Callable[[], None]) -> Iterator[str]:
    """Yield the same piece by piece, for those who write it to a file."""
    for index, name in enumerate(field_names(type(value))):
        yield f'{"," if index else "{"}"{name}":'
        item = getattr(value, name)
        if isinstance(item, tuple):
            yield from _items(item, give_way)
        else:
            yield _text(item)
    yield "}"


def _items(items: Sequence[object], give_way: Callable[[], None]) -> Iterator[str]:
    yield "["
    for start in range(0, len(items), _CHUNK):
        give_way()
        if start:
            yield ","
        yield _text(items[start : start + _CHUNK])[1:-1]
    yield "]"


def _text(value: object) -> str:
    # Tuples are written as they are, and the dictionary of one dataclass is gone before the next is made: what
    # `to_plain` gives is thousands of objects at a time, enough to set off a garbage collection.
    return json.dumps(value, default=_shallow, separators=(",", ":"))


def _shallow(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in field_names(type(value))}
