"""The part of one rank in a distributed job: its steps, and the collectives in them in the order of the process group.

On a device these are the kernels of NCCL or RCCL, which run from the arrival of this rank until all have arrived and
the data has moved; on a host the spans that Gloo records.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from midwatch.model.ranks import Collective, RankFacts, RankStep
from midwatch.model.trace import TraceSummary
from midwatch.trace.ceiling import MEMORY_BYTES
from midwatch.trace.columns import KERNEL, OPS, Table, whole
from midwatch.trace.intervals import Cover, Ints, pick
from midwatch.trace.kernels import base_name, family_of
from midwatch.trace.links import link
from midwatch.trace.load import Trace, load
from midwatch.trace.nogc import without_gc
from midwatch.trace.source import Progress
from midwatch.trace.summary import summarise_trace

_STEP = re.compile(r"^ProfilerStep#(\d+)$")
_ON_HOST = re.compile(r"^(?:gloo|mpi|ucc):\w+$")
_UNEQUAL = re.compile(r"^(?:i?send|i?recv|_?broadcast\w*|reduce|gather|scatter)$", re.IGNORECASE)
_UNEQUAL_KERNEL = re.compile(r"Broadcast|Kernel_Reduce_|:(?:broadcast|reduce|gather|scatter|send|recv)$")
"""Collectives whose parts differ by design, one rank being their root or end: who had the shortest need not be last."""


def summarise_rank(
    path: str | os.PathLike[str],
    *,
    untraced_p50_ms: float | None = None,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress | None = None,
) -> tuple[TraceSummary, RankFacts | None]:
    """Read a trace once and return its summary, and its part in a distributed job where it says that it has one.

    Arguments and errors are those of `summarise`.
    """
    with without_gc():
        trace = load(Path(path), memory_bytes=memory_bytes, progress=progress)
        return summarise_trace(trace, untraced_p50_ms=untraced_p50_ms), rank_facts(trace)


def rank_facts(trace: Trace) -> RankFacts | None:
    """Return the part of this rank, None where the trace names no rank, or one that is alone."""
    told = trace.head.distributed
    if not isinstance(told, dict):
        return None
    rank, world = whole(told.get("rank")), max(whole(told.get("world_size"), 0), 0)
    if rank < 0 or world == 1:
        return None
    on_device = bool(_collective_rows(trace).size)
    found = _on_device(trace) if on_device else _on_host(trace)
    return RankFacts(
        rank=rank,
        world_size=world,
        backend=str(told.get("backend") or ""),
        groups=_groups(told.get("pg_config")),
        lane="device" if on_device else "host" if any(step.collectives for step in found) else "",
        steps=found,
    )


def _groups(told: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    found = []
    for group in told if isinstance(told, list) else ():
        ranks = group.get("ranks") if isinstance(group, dict) else None
        if isinstance(ranks, list):
            found.append((str(group.get("pg_name", "")), tuple(sorted(whole(rank) for rank in ranks))))
    return tuple(found)


def _steps(trace: Trace) -> list[tuple[int, int, int]]:
    """Number, start and end of each step in order of time; the whole trace where none is marked."""
    table = trace.annotations
    found = []
    for row, name in enumerate(trace.names[n] for n in table.name.tolist()):
        match = _STEP.match(name)
        if match:
            found.append((int(match[1]), int(table.start[row]), int(table.end[row])))
    return sorted({step[0]: step for step in found}.values(), key=lambda s: s[1]) or [(-1, 0, trace.end_ns)]


def _collective_rows(trace: Trace) -> Ints:
    device = trace.device
    kernels = np.flatnonzero(device.kind == KERNEL)
    numbers = [n for n in np.unique(device.name[kernels]).tolist() if family_of(trace.names[n]) == "collective"]
    return kernels[np.isin(device.name[kernels], numbers)]


def _on_device(trace: Trace) -> tuple[RankStep, ...]:
    device = trace.device
    launcher = link(trace).launcher
    rows = _collective_rows(trace)
    # The host runs ahead: what counts is the step that launched the work, not the one in which the device got to it.
    launched = pick(trace.runtime.start, launcher, device.start)
    told = [_told(trace, row, int(launcher[row])) for row in rows.tolist()]
    names = {row: base_name(trace.names[int(device.name[row])]) for row in rows.tolist()}
    found = []
    for number, start, end in _steps(trace):
        mine = (launched >= start) & (launched < end)
        others = np.flatnonzero(mine & ~np.isin(np.arange(len(device)), rows))
        found.append(
            RankStep(
                number,
                _unix(trace, start),
                end - start,
                Cover.union(device.start[others], device.end[others]).total,
                tuple(
                    _collective(trace, device, row, names[row], group)
                    for row, (group, what) in zip(rows.tolist(), told, strict=True)
                    if mine[row] and not _UNEQUAL.match(what) and not _UNEQUAL_KERNEL.search(names[row])
                ),
            )
        )
    return tuple(found)


def _told(trace: Trace, row: int, call: int) -> tuple[str, str]:
    """Name of the process group and of the collective, as the kernel says, or the operator that launched it."""
    by_kernel = trace.groups.get((KERNEL, int(trace.device.link[row])))
    if by_kernel is not None or call < 0:
        return by_kernel or ("", "")
    return trace.groups.get((OPS, int(trace.runtime.ext[call])), ("", ""))


def _on_host(trace: Trace) -> tuple[RankStep, ...]:
    spans = []
    for table in (trace.annotations, trace.ops):
        for row, name in enumerate(trace.names[number] for number in table.name.tolist()):
            if _ON_HOST.match(name) and not _UNEQUAL_KERNEL.search(name):
                spans.append(_collective(trace, table, row, name))
    spans.sort(key=lambda span: span.start_ns)
    found = []
    for number, start, end in _steps(trace):
        first, last = _unix(trace, start), _unix(trace, end)
        mine = tuple(span for span in spans if first <= span.start_ns < last)
        found.append(RankStep(number, first, end - start, 0, mine))
    return tuple(found)


def _collective(trace: Trace, table: Table, row: int, name: str, group: str = "") -> Collective:
    return Collective(name, group, _unix(trace, int(table.start[row])), int(table.end[row] - table.start[row]))


def _unix(trace: Trace, at: int) -> int:
    return trace.base_ns + trace.origin_ns + at
