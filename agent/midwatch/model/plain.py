"""Values to plain dictionaries and back: the encoding of the pipe, of the spool and of ``--json``."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return ``value`` as dictionaries, lists and scalars that `json` can write. Fields keep their order."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


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
