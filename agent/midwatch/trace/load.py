"""A trace file, read: columns with one time base, cleaned of impossible times, and what had to be said about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from midwatch.model.trace import Caveat
from midwatch.trace.ceiling import MEMORY_BYTES
from midwatch.trace.columns import (
    ANNOTATIONS,
    KERNEL,
    LOST,
    MEMCPY,
    MEMSET,
    OPS,
    OVERHEAD,
    PYTHON,
    RUNTIME,
    SPAN,
    SYNC,
    Columns,
    Interned,
    Table,
    whole,
)
from midwatch.trace.errors import TraceError
from midwatch.trace.events import UNREADABLE, Head, Key
from midwatch.trace.intervals import Ints
from midwatch.trace.sane import sane
from midwatch.trace.source import Progress, Source
from midwatch.trace.split import Reader

if TYPE_CHECKING:
    from midwatch.model.tracks import Tracks

_TABLES = {
    "ops": (OPS,), "annotations": (ANNOTATIONS,), "runtime": (RUNTIME,), "device": (KERNEL, MEMCPY, MEMSET),
    "sync": (SYNC,), "overhead": (OVERHEAD,), "python": (PYTHON,), "span": (SPAN,),
}  # fmt: skip
_HOSTS = ("ops", "runtime", "overhead", "python")
_TRACKS_SHARE = 16
"""The agent's own tracks may be so small a part of the memory: as objects they take several times their text."""
_HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace. All times are nanoseconds after ``origin_ns``, which is in the file's own time base.

    ``base_ns + origin_ns`` is Unix time, where the file has a base.
    """

    file: str
    events: int
    origin_ns: int
    base_ns: int
    end_ns: int
    ops: Table
    annotations: Table
    runtime: Table
    device: Table
    """Kernels, copies and memsets."""
    sync: Table
    overhead: Table
    python: Table
    span: Table
    interned: Interned
    names: list[str]
    lanes: list[tuple[str, Key, Key]]
    shapes: list[tuple[bytes, bytes]]
    thread_names: dict[tuple[Key, Key], str]
    head: Head
    tracks: Tracks | None
    cut_ns: int | None
    """Where the trace was cut for want of memory, None where it was not: nothing that starts later is in the tables."""
    other: dict[str, int]
    caveats: tuple[Caveat, ...]
    groups: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    """As in `Columns`."""

    def local(self, unix_ns: int) -> int:
        """Unix time as a time of this trace."""
        return unix_ns - self.base_ns - self.origin_ns


def load(path: Path, *, memory_bytes: int = MEMORY_BYTES, progress: Progress | None = None) -> Trace:
    """Read ``path`` in about ``memory_bytes``. Raises `TraceError` where there is nothing to read."""
    source = Source(path, progress=progress)
    reader = Reader(source, path.name)
    columns = Columns(memory_bytes)
    for batch in reader:
        columns.add(batch)
        if columns.full:
            source.bounded = True
            break
    caveats = _damage(source, reader, columns)
    tables = {key: columns.table(*categories) for key, categories in _TABLES.items()}
    tracks = _tracks(reader.head, memory_bytes // _TRACKS_SHARE, caveats)
    low, high = _believable(tables)
    bad = 0
    for key, table in tables.items():
        good = (table.start >= low) & (table.end <= high) & (table.end >= table.start)
        bad += len(table) - int(good.sum())
        tables[key] = table if good.all() else table.take(good)
    if bad:
        caveats.append(
            Caveat(
                "bad_times",
                f"{bad} events with impossible times (before, after or longer than the trace) are left out.",
                bad,
            ),
        )
    cut_ns = None if columns.cut_ns is None else _cut(tables, columns.cut_ns)
    starts = [int(t.start.min()) for k, t in tables.items() if k != "span" and len(t)]
    if not starts and tracks is None:
        raise TraceError(
            f"{path.name} holds no timed events, so nothing can be said; "
            "record again with at least one activity and one request inside the window.",
        )
    base_ns = max(whole(reader.head.base_ns), 0)
    origin = min(starts, default=0)
    if not starts and tracks is not None:
        origin = tracks.capture.start_unix_ns - base_ns
    if cut_ns is not None:
        whole_ns = min(columns.latest_ns, high) - origin
        caveats.append(_said_of_cut(memory_bytes, cut_ns - origin, whole_ns, columns.events))
    moved = {key: tables.pop(key).shifted(-origin).sorted() for key in _TABLES}
    end = max((int(moved[k].end.max()) for k in moved if k != "span" and len(moved[k])), default=0)
    return Trace(
        file=path.name,
        events=columns.events,
        origin_ns=origin,
        base_ns=base_ns,
        end_ns=end,
        interned=columns.interned,
        names=list(columns.interned.names),
        lanes=list(columns.interned.lanes),
        shapes=list(columns.interned.shapes),
        thread_names=columns.thread_names,
        head=reader.head,
        tracks=tracks,
        cut_ns=None if cut_ns is None else cut_ns - origin,
        other=columns.other,
        caveats=tuple(caveats),
        groups=columns.groups,
        **moved,
    )


def _believable(tables: dict[str, Table]) -> tuple[int, int]:
    """Bounds outside which a time is not believed: an hour around the median start."""
    starts: list[Ints] = [t.start[t.start != LOST] for k, t in tables.items() if k != "span"]
    known = np.concatenate(starts)
    if not len(known):
        return 0, 0
    middle = int(np.median(known))
    return middle - _HOUR_NS, middle + _HOUR_NS


def _cut(tables: dict[str, Table], cut: int) -> int:
    """Give all tables one end, at which no launch waits for a record that was left out; return when that is."""
    runtime, device = tables["runtime"], tables["device"]
    launched = np.isin(runtime.link, device.link[device.link > 0])
    if launched.any():
        cut = min(cut, int(runtime.start[launched].max()) + 1)
    annotations = tables["annotations"]
    tables["annotations"] = annotations.take(annotations.end <= cut)  # of a request that goes on the rest is missing
    for key in _HOSTS:
        table = tables[key].take(tables[key].start < cut)
        tables[key] = replace(table, end=np.minimum(table.end, cut))
    return cut


def _said_of_cut(memory_bytes: int, kept_ns: int, whole_ns: int, events: int) -> Caveat:
    text = (
        f"The trace ({events:,} events) needs more than {memory_bytes >> 20} MiB of memory: "
        f"the facts cover its first {kept_ns / 1e6:,.0f} of {whole_ns / 1e6:,.0f} ms."
    )
    return Caveat("cut_short", text, events)


def _damage(source: Source, reader: Reader, columns: Columns) -> list[Caveat]:
    caveats = []
    if source.bounded:
        caveats.append(Caveat("bounded", "The file is too large to read whole; the facts cover its first part."))
    if source.truncated or reader.unfinished:
        caveats.append(Caveat("truncated", "The file ends in the middle; the facts cover what is there."))
    if reader.repaired:
        text = f"{reader.repaired} malformed events were mended, the first near byte {reader.first_damage:,}."
        caveats.append(Caveat("repaired", text, reader.repaired))
    if reader.dropped:
        text = f"{reader.dropped} unreadable events are left out, the first near byte {reader.first_damage:,}."
        caveats.append(Caveat("unreadable_events", text, reader.dropped))
    if reader.head_damaged:
        caveats.append(Caveat("head_damaged", "What the file says of its device and time base could not be read."))
    if columns.bad_numbers:
        text = (
            f"{columns.bad_numbers} events lack a start or a duration that is a number; a missing duration counts as 0."
        )
        caveats.append(Caveat("bad_numbers", text, columns.bad_numbers))
    return caveats


def _tracks(head: Head, most_bytes: int, caveats: list[Caveat]) -> Tracks | None:
    raw = bytes(head.midwatch)
    if not raw:
        return None
    if len(raw) > most_bytes:
        text = f"The agent's own tracks in the file are left out: they hold {len(raw) / 1e6:.0f} MB."
        caveats.append(Caveat("tracks_unreadable", text))
        return None
    from midwatch.model.tracks import Tracks  # only now: few traces have tracks, and their types take time to be made

    try:
        tracks, left_out = sane(msgspec.json.decode(raw, type=Tracks))
    except UNREADABLE as exc:
        caveats.append(Caveat("tracks_unreadable", f"The agent's own tracks in the file could not be read: {exc}."))
        return None
    if left_out:
        are = "is" if left_out == 1 else "are"
        text = f"Of the agent's own records {left_out} with impossible times {are} left out."
        caveats.append(Caveat("bad_tracks", text, left_out))
    return tracks
