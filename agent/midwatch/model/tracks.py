"""What the agent knows of a window beside the profiler's trace: requests, units, stack samples, collections, locks.

The agent writes it as one JSON document beside the trace file (`plain.to_plain`); the companion puts the same document
into the trace file under the top-level key ``midwatch`` and draws it as tracks, so that the one file is complete.
"""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.capture import Capture
from midwatch.model.requests import RequestRecord, UnitRecord
from midwatch.model.resource import Resource
from midwatch.model.samples import CompileEvent, GcPause, LockWait
from midwatch.model.site import Frame


@dataclass(frozen=True, slots=True)
class ThreadName:
    """One thread; a trace may know it by ``native_id`` or by the low 32 bits of ``ident``."""

    native_id: int
    ident: int
    name: str


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One stack sample; ``stack`` is an index into `Tracks.stacks`. Meaning of the rest as in `StackSample`."""

    unix_ns: int
    thread_id: int
    stack: int
    weight_ns: int
    late_ns: int = 0


@dataclass(frozen=True, slots=True)
class Tracks:
    """All of it. Frames are interned: ``stacks`` holds tuples of indexes into ``frames``, innermost first."""

    resource: Resource
    capture: Capture
    """Without its summary."""
    requests: tuple[RequestRecord, ...] = ()
    """Those that overlap the window; cut ones too."""
    units: tuple[UnitRecord, ...] = ()
    frames: tuple[Frame, ...] = ()
    stacks: tuple[tuple[int, ...], ...] = ()
    samples: tuple[SampleRow, ...] = ()
    gc: tuple[GcPause, ...] = ()
    locks: tuple[LockWait, ...] = ()
    compiles: tuple[CompileEvent, ...] = ()
    threads: tuple[ThreadName, ...] = ()
