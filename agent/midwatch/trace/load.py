"""A trace file, read: columns with one time base, cleaned of impossible times, and what had to be said about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from midwatch.model.trace import Caveat
from midwatch.model.tracks import Tracks
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
from midwatch.trace.events import Head, Key
from midwatch.trace.intervals import Ints
from midwatch.trace.source import Progress, Source
from midwatch.trace.split import UNREADABLE, Reader

MAX_EVENTS = 8_000_000
"""Events read from one file, about 0.6 GB of columns: a trace beyond it is summarised up to here, and says so."""
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
    other: dict[str, int]
    caveats: tuple[Caveat, ...]
    groups: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    """As in `Columns`."""

    def local(self, unix_ns: int) -> int:
        """Unix time as a time of this trace."""
        return unix_ns - self.base_ns - self.origin_ns


def load(path: Path, *, progress: Progress | None = None) -> Trace:
    """Read ``path``. Raises `TraceError` where there is nothing to read."""
    source = Source(path, progress=progress)
    reader = Reader(source, path.name)
    columns = Columns()
    for batch in reader:
        columns.add(batch)
        if columns.events >= MAX_EVENTS:
            source.bounded = True
            break
    caveats = _damage(source, reader, columns)
    tables = {
        "ops": columns.table(OPS),
        "annotations": columns.table(ANNOTATIONS),
        "runtime": columns.table(RUNTIME),
        "device": columns.table(KERNEL, MEMCPY, MEMSET),
        "sync": columns.table(SYNC),
        "overhead": columns.table(OVERHEAD),
        "python": columns.table(PYTHON),
        "span": columns.table(SPAN),
    }
    tracks = _tracks(reader.head, caveats)
    low, high = _believable(tables)
    bad = 0
    for key, table in tables.items():
        kept = table.take((table.start >= low) & (table.end <= high) & (table.end >= table.start))
        bad += len(table) - len(kept)
        tables[key] = kept
    if bad:
        caveats.append(
            Caveat(
                "bad_times",
                f"{bad} events with impossible times (before, after or longer than the trace) are left out.",
                bad,
            ),
        )
    measured = [t for k, t in tables.items() if k != "span" and len(t)]
    if not measured and tracks is None:
        raise TraceError(
            f"{path.name} holds no timed events, so nothing can be said; "
            "record again with at least one activity and one request inside the window.",
        )
    base_ns = max(whole(reader.head.base_ns), 0)
    origin = min((int(t.start.min()) for t in measured), default=0)
    if not measured and tracks is not None:
        origin = tracks.capture.start_unix_ns - base_ns
    moved = {key: table.shifted(-origin).sorted() for key, table in tables.items()}
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


def _tracks(head: Head, caveats: list[Caveat]) -> Tracks | None:
    raw = bytes(head.midwatch)
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw, type=Tracks)
    except UNREADABLE as exc:
        caveats.append(Caveat("tracks_unreadable", f"The agent's own tracks in the file could not be read: {exc}."))
        return None
