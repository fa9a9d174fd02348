"""No text of a summary is longer than a person reads: names in a trace may be of any length, a summary must travel."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

LONGEST = (240, 80)
"""Characters. A kernel's short name, a path and the shapes of an operator are below the first as a rule; the second is
for summaries that would hold too many long ones."""
MOST_LETTERS = 36_000
"""Of all texts together: with the figures beside them such a summary stays below 64 KiB on the wire."""

T = TypeVar("T")


def shorten(value: T) -> T:
    """Return ``value`` with the texts in it cut so that it can travel; itself where all are short."""
    short: Any = value
    for longest in LONGEST:
        short = _cut(short, longest)
        if _letters(short) <= MOST_LETTERS:
            break
    return short  # type: ignore[no-any-return]


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest or isinstance(value, Enum) else value[: longest - 1] + "…"
    if isinstance(value, tuple):
        cut = tuple(_cut(one, longest) for one in value)
        return value if all(a is b for a, b in zip(cut, value, strict=True)) else cut
    if is_dataclass(value) and not isinstance(value, type):
        found = {field.name: getattr(value, field.name) for field in fields(value)}
        changed = {name: short for name, old in found.items() if (short := _cut(old, longest)) is not old}
        return replace(value, **changed) if changed else value
    return value


def _letters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, tuple):
        return sum(map(_letters, value))
    if is_dataclass(value):
        return sum(_letters(getattr(value, field.name)) for field in fields(value))
    return 0
