"""Recent readings of a sensor: bounded, written by one thread, asked by others."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from midwatch.watch.snapshot import snapshot

T = TypeVar("T")


class Readings(Generic[T]):
    """Values with the time they cover, the latest ``size`` of them."""

    def __init__(self, size: int) -> None:
        self._kept: deque[tuple[int, int, T]] = deque(maxlen=size)
        self._new: deque[T] = deque(maxlen=size)

    def add(self, start_ns: int, end_ns: int, value: T) -> None:
        """Keep ``value``, which covers the time from ``start_ns`` to ``end_ns`` (`Clock.perf_ns`)."""
        self._kept.append((start_ns, end_ns, value))
        self._new.append(value)

    def between(self, start_ns: int, end_ns: int) -> tuple[T, ...]:
        """Return the values that overlap a time, the oldest first."""
        kept = snapshot(lambda: list(self._kept))
        return tuple(value for start, end, value in kept if start <= end_ns and end >= start_ns)

    def take(self) -> list[T]:
        """Take out the values that came since the last call; `between` keeps them."""
        taken: list[T] = []
        while self._new:
            taken.append(self._new.popleft())
        return taken
