"""Which call launched which work on the device: the join by correlation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from midwatch.trace import apis
from midwatch.trace.intervals import Ints, Mask
from midwatch.trace.load import Trace


@dataclass(frozen=True)
class Links:
    """Rows of ``trace.runtime`` and of ``trace.device``, joined."""

    kinds: Ints
    """`apis` class of each runtime row."""
    launcher: Ints
    """Runtime row of each device row, -1 where it is not in the trace."""
    works: Ints
    """Number of device rows of each runtime row."""
    first: Ints
    """First device row, in order of start, of each runtime row, -1 where it has none."""
    order: list[int]
    """Device rows sorted by launcher; those without one come first."""
    opens: list[int]
    """Where the rows of each runtime row begin in ``order``; one more entry ends the last."""
    captured: Mask
    """Runtime rows inside the capture of a graph: they launch nothing."""
    queued: Mask
    """Runtime rows whose work, if they launch any, still stood in line when the recording ended."""

    def works_of(self, row: int) -> list[int]:
        """Device rows that a runtime row launched, in order of start."""
        return self.order[self.opens[row] : self.opens[row + 1]]

    @cached_property
    def launches(self) -> Mask:
        """Runtime rows that hand kernels to the device."""
        launching: Mask = np.isin(self.kinds, (apis.LAUNCH, apis.GRAPH))
        launching &= ~self.captured
        return launching

    @cached_property
    def lost(self) -> Mask:
        """Launches whose kernels are not in the trace: they ran after its end, or their records are missing."""
        lost: Mask = self.launches & (self.works == 0)
        return lost

    @cached_property
    def missing(self) -> Mask:
        """Launches whose kernels should be in the trace, and are not."""
        missing: Mask = self.lost & ~self.queued
        return missing


def link(trace: Trace) -> Links:
    """Join the two tables."""
    runtime, device = trace.runtime, trace.device
    kinds = apis.api_kinds(trace.names, runtime.name)
    launcher = np.full(len(device), -1, np.int64)
    order = np.argsort(runtime.link, kind="stable")
    keys = runtime.link[order]
    if len(keys) and len(device):
        at = np.minimum(np.searchsorted(keys, device.link), len(keys) - 1)
        hit = (keys[at] == device.link) & (device.link > 0)
        launcher[hit] = order[at[hit]]
    linked = np.flatnonzero(launcher >= 0)
    works = np.bincount(launcher[linked], minlength=len(runtime)).astype(np.int64)
    first = np.full(len(runtime), -1, np.int64)
    first[launcher[linked][::-1]] = linked[::-1]
    order = np.argsort(launcher, kind="stable")
    opens = np.searchsorted(launcher[order], np.arange(len(runtime) + 1), side="left")
    queued = _queued(trace, kinds, launcher)
    return Links(kinds, launcher, works, first, order.tolist(), opens.tolist(), _captured(trace, kinds), queued)


def _queued(trace: Trace, kinds: Ints, launcher: Ints) -> Mask:
    """Calls after the last one whose work is known, made while the device still worked, and waited for by nobody.

    Work runs in the order of its launches as a rule, so what was launched later ran later; where somebody waited for
    the device afterwards, and got to the end of it, it did run, and its record is missing. A wait for an event may have
    been for earlier work: that is not known, so it counts as well. Of several devices all have to be at work still,
    since a launch whose record is missing does not say for which it was.
    """
    runtime = trace.runtime
    linked = np.flatnonzero(launcher >= 0)
    if not len(linked):
        return np.zeros(len(runtime), np.bool_)
    newest = int(runtime.start[launcher[linked]].max())
    waits = runtime.start[np.isin(kinds, (apis.DEVICE_SYNC, apis.STREAM_SYNC, apis.EVENT_SYNC))]
    waited = int(waits.max()) if len(waits) else -1
    queued: Mask = (runtime.start > max(newest, waited)) & (runtime.start <= _all_busy_until(trace))
    return queued


def _all_busy_until(trace: Trace) -> int:
    """The end of the last work of the device that was done first."""
    last: dict[object, int] = {}
    for lane in np.unique(trace.device.lane).tolist():
        device = trace.lanes[lane][1]
        last[device] = max(last.get(device, 0), int(trace.device.end[trace.device.lane == lane].max()))
    return min(last.values())


def _captured(trace: Trace, kinds: Ints) -> Mask:
    inside = np.zeros(len(kinds), np.bool_)
    runtime = trace.runtime
    begins = np.flatnonzero(kinds == apis.CAPTURE)
    ends = np.flatnonzero(kinds == apis.CAPTURE_END)
    for begin in begins.tolist():
        lane = runtime.lane[begin]
        later = ends[(runtime.lane[ends] == lane) & (runtime.start[ends] >= runtime.start[begin])]
        stop = runtime.end[later[0]] if len(later) else trace.end_ns
        inside |= (runtime.lane == lane) & (runtime.start >= runtime.start[begin]) & (runtime.start <= stop)
    return inside
