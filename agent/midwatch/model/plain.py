"""Values to plain dictionaries and back: the encoding of the pipe, of the spool and of ``--json``."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


_SCALARS = frozenset({bool, float, int, str, type(None)})
_names: dict[type, tuple[str, ...]] = {}


def to_plain(value: Any) -> Any:
    """Return ``value`` as dictionaries, lists and scalars that `json` can write. Fields keep their order."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple or kind is list:
        return [item if type(item) in _SCALARS else to_plain(item) for item in value]
    names = field_names(kind)
    if names:
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, Enum):
        return value.value
    return [to_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def field_names(cls: type) -> tuple[str, ...]:
    """Return the names of a dataclass's fields in their order; empty for any other class."""
    names = _names.get(cls)
    if names is None:
        names = _names[cls] = tuple(field.name for field in fields(cls)) if is_dataclass(cls) else ()
    return names


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def from_plain(cls: type[T], plain: Any) -> T:
    """Rebuild a value of the frozen class ``cls``; unknown keys are ignored and missing ones take their default.

    Raises `TypeError` or `ValueError` where a required field is missing or of a wrong shape.
    """
    return typing.cast("T", _build(cls, plain))


def _build(hint: Any, plain: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        if plain is None:
            return None
        inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return _build(inner[0], plain)
    if origin is tuple:
        args = typing.get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_build(args[0], item) for item in plain)
        return tuple(_build(arg, item) for arg, item in zip(args, plain, strict=True))
    if isinstance(hint, type):
        if is_dataclass(hint):
            if not isinstance(plain, dict):
                raise TypeError(f"{hint.__name__} needs an object, not {type(plain).__name__}")
            hints = _hints(hint)
            return hint(**{f.name: _build(hints[f.name], plain[f.name]) for f in fields(hint) if f.name in plain})
        if issubclass(hint, Enum):
            return hint(plain)
        if hint is float and isinstance(plain, int):
            return float(plain)
    return plain
