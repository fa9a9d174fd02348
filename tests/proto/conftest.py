"""Values of the model made at random from the classes' own type hints, edge cases preferred."""

from __future__ import annotations

import random
import types
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

import pytest

SCALARS: dict[type, list[Any]] = {
    bool: [False, True],
    int: [0, 1, -1, 2, 127, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)],
    float: [0.0, 1.0, -1.0, 0.1, 1e-300, 1e300, float("inf"), 123.456],
    str: ["", "ok", "on", "window", "a.py", "größe", "推薦", "\x00", "a" * 300],
}


@cache
def hints_of(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def make(rng: random.Random, hint: Any) -> Any:
    """A value for ``hint``: a class of the model, a scalar, an optional or a tuple of those."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return None if rng.random() < 0.3 else make(rng, args[0])
    if origin is tuple and args[-1] is Ellipsis:
        return tuple(make(rng, args[0]) for _ in range(rng.choice((0, 1, 1, 2))))
    if origin is tuple:
        return tuple(make(rng, arg) for arg in args)
    if is_dataclass(hint):
        return hint(**{field.name: make(rng, hints_of(hint)[field.name]) for field in fields(hint)})  # type: ignore[operator]
    return rng.choice(list(hint) if issubclass(hint, Enum) else SCALARS[hint])


@pytest.fixture(scope="session")
def random_value() -> Callable[[type, int], Any]:
    return lambda cls, seed: make(random.Random(seed), cls)
