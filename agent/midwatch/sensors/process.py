"""The process and its host, every few seconds and at each spike: CPU, memory, switches, faults, and what its control
group took away.
"""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from midwatch.clock import Clock
from midwatch.model.samples import HostSample
from midwatch.sensors.allocator import AllocatorCounts
from midwatch.sensors.base import SELDOM_S, Sensor, Unavailable
from midwatch.sensors.cgroup import Cgroup, CgroupCpu
from midwatch.sensors.files import read_small
from midwatch.sensors.readings import Readings

_MAX_KEPT = 120
_FRESH_NS = 100_000_000
_PROC = Path("/proc/self")
_STAT = f"{_PROC}/stat"


class _Totals(NamedTuple):
    at_ns: int
    cpu_ns: int
    voluntary: int
    involuntary: int
    major_faults: int
    cgroup: CgroupCpu


class ProcessSensor(Sensor):
    """Reads ``/proc`` and `getrusage` itself: they cover all threads, and psutil would take 50 ms to import.

    Args:
        clock: the time.
        allocator: looks, and returns the changes of the device allocator's counters since the call before; they go into
            the same sample.
    """

    name = "process"
    period_s = SELDOM_S

    def __init__(self, clock: Clock, allocator: Callable[[], AllocatorCounts] = AllocatorCounts) -> None:
        super().__init__()
        self._clock = clock
        self._allocator = allocator
        self._page_bytes = resource.getpagesize()
        self._cgroup: Cgroup | None = None
        self._before: _Totals | None = None
        self._lock = threading.Lock()
        self._readings: Readings[HostSample] = Readings(_MAX_KEPT)

    def between(self, start_ns: int, end_ns: int) -> tuple[HostSample, ...]:
        """Return the samples whose interval overlaps a time (`Clock.perf_ns`), the oldest first.

        The last one ends now, unless the one before it is quite fresh.
        """
        now_ns, before = self._clock.perf_ns(), self._before
        if before is not None and before.at_ns < end_ns and now_ns - before.at_ns >= _FRESH_NS:
            self.tick(now_ns)
        return self._readings.between(start_ns, end_ns)

    def take(self) -> list[HostSample]:
        """Take out the samples that are new since the last call."""
        return self._readings.take()

    def _open(self) -> None:
        try:
            self._cgroup = Cgroup((_PROC / "cgroup").read_text())
        except (FileNotFoundError, PermissionError) as error:
            raise Unavailable(f"/proc cannot be read here ({error.strerror}).") from error
        self._before = self._totals(self._clock.perf_ns())

    def _look(self, now_ns: int) -> None:  # noqa: ARG002
        with self._lock:  # whoever tells of a spike looks too, and may have come first
            self._take_sample(self._clock.perf_ns())

    def _take_sample(self, now_ns: int) -> None:
        before = self._before
        if before is not None and now_ns <= before.at_ns:
            return
        now = self._before = self._totals(now_ns)
        if before is None:
            return
        # Behind the name, which may hold anything, in brackets: state is field 3, threads 20, pages in memory 24.
        stat = read_small(_STAT).rpartition(")")[2].split()
        allocator = self._allocator()
        sample = HostSample(
            unix_ns=self._clock.to_unix(now_ns),
            interval_ns=now.at_ns - before.at_ns,
            cpu_ns=now.cpu_ns - before.cpu_ns,
            rss_bytes=int(stat[21]) * self._page_bytes,
            threads=int(stat[17]),
            voluntary_switches=now.voluntary - before.voluntary,
            involuntary_switches=now.involuntary - before.involuntary,
            major_faults=now.major_faults - before.major_faults,
            throttled_ns=max(0, now.cgroup.throttled_ns - before.cgroup.throttled_ns),
            cpu_quota=now.cgroup.quota,
            alloc_retries=allocator.retries,
            device_allocs=allocator.device_allocs,
            device_frees=allocator.device_frees,
        )
        self._readings.add(before.at_ns, now.at_ns, sample)

    def _totals(self, now_ns: int) -> _Totals:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return _Totals(
            at_ns=now_ns,
            cpu_ns=time.process_time_ns(),
            voluntary=usage.ru_nvcsw,
            involuntary=usage.ru_nivcsw,
            major_faults=usage.ru_majflt,
            cgroup=self._cgroup.read() if self._cgroup is not None else CgroupCpu(),
        )
