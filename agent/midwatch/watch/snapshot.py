"""Copies of collections that another thread may be changing, without a lock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def snapshot(copy: Callable[[], list[T]]) -> list[T]:
    """Return ``copy()``, tried again where the collection changed meanwhile; empty where it never stood still."""
    for _ in range(8):
        with contextlib.suppress(RuntimeError):
            return copy()
    return []
