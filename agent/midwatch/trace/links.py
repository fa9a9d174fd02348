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
        """Launches whose kernels are not in the trace."""
        lost: Mask = self.launches & (self.works == 0)
        return lost


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
    return Links(kinds, launcher, works, first, order.tolist(), opens.tolist(), _captured(trace, kinds))


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
