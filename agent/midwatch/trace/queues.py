"""What others hand to the streams of a request: threads that share a stream stand in one line for the device."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from midwatch.trace.intervals import Ints
from midwatch.trace.scene import Scene
from midwatch.trace.spans import RequestSpan


@dataclass(frozen=True, slots=True)
class Queue:
    """What others handed to one stream: when, and when the stream had done all of it up to there."""

    launched: list[int]
    done: list[int]

    def busy_until(self, time: float) -> int:
        """When the stream has done what was handed to it up to a time; 0 where that was nothing."""
        at = bisect_right(self.launched, time) - 1
        return self.done[at] if at >= 0 else 0


def queues_of_others(scene: Scene, request: RequestSpan, works: Ints) -> dict[int, Queue]:
    """Work on the streams of ``works``, by stream, that other threads launched while the request was under way.

    What the request's own threads launched for others is not among it: that they do one after the other.
    """
    device, links, runtime = scene.trace.device, scene.links, scene.trace.runtime
    first = int(np.searchsorted(scene.reach, request.start, side="right"))
    stop = int(np.searchsorted(device.start, request.end, side="left"))
    rows = first + np.flatnonzero((device.end[first:stop] > request.start) & (links.launcher[first:stop] >= 0))
    own_lanes = [lane for part in request.parts for lane in part.lanes]
    rows = rows[~np.isin(runtime.lane[links.launcher[rows]], own_lanes)]
    if not len(rows) or not len(works):
        return {}
    launched = runtime.start[links.launcher[rows]]
    found = {}
    for lane in np.unique(device.lane[works]).tolist():
        mine = np.flatnonzero(device.lane[rows] == lane)
        mine = mine[np.argsort(launched[mine], kind="stable")]
        if len(mine):
            found[lane] = Queue(launched[mine].tolist(), np.maximum.accumulate(device.end[rows[mine]]).tolist())
    return found
