"""Counters of torch's caching allocator on the device: retries, and calls of the driver's allocator."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from midwatch.sensors.base import Sensor, Unavailable
from midwatch.sensors.cuda import initialised, used_indexes


class AllocatorCounts(NamedTuple):
    """Differences since the reading before, over all devices that the process uses."""

    retries: int = 0
    device_allocs: int = 0
    device_frees: int = 0


_KEYS = ("num_alloc_retries", "num_device_alloc", "num_device_free")


class AllocatorSensor(Sensor):
    """Reads the counters where the process has used CUDA; it never initialises it.

    The call takes the allocator's mutex while it holds the GIL, so it comes with a sample of the process alone.
    """

    name = "allocator"

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[int, AllocatorCounts] = {}
        self._changes = AllocatorCounts()

    def take(self, now_ns: int) -> AllocatorCounts:
        """Look, and return what has changed since the last call."""
        self.tick(now_ns)
        changes, self._changes = self._changes, AllocatorCounts()
        return changes

    def _look(self, now_ns: int) -> None:  # noqa: ARG002
        if not initialised():
            return
        stats: Any = getattr(sys.modules["torch"]._C, "_cuda_memoryStats", None)  # noqa: SLF001
        if stats is None:
            raise Unavailable("This torch does not tell the counters of its CUDA allocator.")
        for index in used_indexes():
            table = stats(index)
            counts = AllocatorCounts(*(int(table.get(key, 0)) for key in _KEYS))
            before = self._seen.get(index, counts)
            self._seen[index] = counts
            grown = (max(0, now - then) for now, then in zip(counts, before, strict=True))
            self._changes = AllocatorCounts(*(a + b for a, b in zip(self._changes, grown, strict=True)))
