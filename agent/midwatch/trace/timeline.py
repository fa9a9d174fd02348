"""The slowest whole request as a few lanes of cells, for drawing."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from midwatch.model.trace import Lane, Timeline
from midwatch.trace.columns import KERNEL
from midwatch.trace.gaps import Piece
from midwatch.trace.intervals import Cover
from midwatch.trace.pauses import Pause
from midwatch.trace.scene import Scene
from midwatch.trace.spans import RequestSpan
from midwatch.trace.waits import Wait

CELLS = 100
_STOOD = {"python": "python", "compile": "python", "graph_break": "python", "blocked": "blocked", "lock": "blocked",
    "data": "blocked"}  # fmt: skip
"""By what held the model's work up: the lane that shows it. Collections are known exactly, and come by themselves."""


def timeline(
    scene: Scene,
    request: RequestSpan | None,
    waits: list[Wait],
    pieces: Iterable[Piece] = (),
    pauses: Iterable[Pause] = (),
) -> Timeline:
    """Draw ``request``, or the whole window where it is None.

    The host lane holds operators and calls of the runtime alone: what else the host is known to have done while the
    model's work stood still has lanes of its own, so that it does not look idle.
    """
    start, end = (request.start, request.end) if request is not None else scene.window
    if end <= start:
        return Timeline()
    device = scene.trace.device
    kernels = device.kind == KERNEL
    waited = Cover.union(np.array([w.start for w in waits], np.int64), np.array([w.end for w in waits], np.int64))
    lanes = [
        Lane("host", "host", _cells(_host(scene, request), start, end)),
        Lane("waits for device", "wait", _cells(waited, start, end)),
    ]
    mine = [piece for piece in pieces if request is not None and piece.stretch.request == request.index]
    stood = [(_STOOD[piece.host], piece.start, piece.start + piece.length) for piece in mine if piece.host in _STOOD]
    stood += [("gc", pause.start, pause.end) for pause in pauses]
    for name in ("python", "blocked", "gc"):
        spans = np.array([(a, b) for one, a, b in stood if one == name], np.int64).reshape(-1, 2)
        lanes.insert(-1, Lane(name, name, _cells(Cover.union(spans[:, 0], spans[:, 1]), start, end)))
    if scene.has_device:
        work = Cover.union(device.start[kernels], device.end[kernels])
        copies = Cover.union(device.start[~kernels], device.end[~kernels])
        lanes.append(Lane("device", "device", _cells(work, start, end)))
        lanes.append(Lane("copies", "copy", _cells(copies, start, end)))
    if request is not None:
        around = Cover.union(
            np.array([p.start for p in request.parts if p.is_unit], np.int64),
            np.array([p.end for p in request.parts if p.is_unit], np.int64),
        )
        if len(around.starts):
            lanes.insert(0, Lane("unit", "request", _cells(around, start, end)))
    return Timeline(
        scene.ms(start),
        (end - start) / 1e6,
        tuple(lane for lane in lanes if lane.kind in {"host", "device"} or any(lane.cells)),
    )


def _host(scene: Scene, request: RequestSpan | None) -> Cover:
    """Operators and calls of the runtime on the threads that worked for the request."""
    parts = []
    for table in (scene.trace.ops, scene.trace.runtime):
        if request is None:
            parts.append((table.start, table.end))
            continue
        mine = np.zeros(len(table), np.bool_)
        for part in request.parts:
            mine |= np.isin(table.lane, part.lanes) & (table.end > part.start) & (table.start < part.end)
        parts.append((table.start[mine], table.end[mine]))
    return Cover.union(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))


def _cells(cover: Cover, start: int, end: int) -> tuple[int, ...]:
    edges = np.linspace(start, end, CELLS + 1).astype(np.int64)
    covered = cover.within(edges[:-1], edges[1:])
    width = np.maximum(np.diff(edges), 1)
    cells = np.minimum(np.ceil(100 * covered / width), 100).astype(int)
    return tuple(int(cell) for cell in cells)
