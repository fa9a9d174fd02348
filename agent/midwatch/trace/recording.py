"""What the profiler itself costs the host: so much for each event that it records."""

from __future__ import annotations

import numpy as np

from midwatch.trace.intervals import NONE, Ints, among
from midwatch.trace.scene import Scene
from midwatch.trace.spans import RequestSpan

OP_NS = 1_000
CALL_NS = 4_000
"""What recording one operator and one call of the runtime costs: fitted to traces of services whose untraced latency is
known (H200, torch 2.11, operators and CUDA). Python functions add too little to tell."""


def recording_cost(scene: Scene, request: RequestSpan, bounds: Ints) -> Ints:
    """Nanoseconds of recording between each two of the sorted ``bounds``, on the threads of ``request``."""
    ops = [NONE]
    for part in request.parts:
        table = scene.trace.ops
        first, last = np.searchsorted(table.start, [part.start, part.end], side="left").tolist()
        ops.append(table.start[first + np.flatnonzero(among(table.lane[first:last], part.lanes))])
    op_starts = np.sort(np.concatenate(ops))
    call_starts = scene.trace.runtime.start[scene.runtime_of(request)]
    spent = np.searchsorted(op_starts, bounds) * OP_NS + np.searchsorted(call_starts, bounds) * CALL_NS
    return np.diff(spent)
