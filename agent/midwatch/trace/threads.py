"""Threads of the host under the several numbers that a trace and the agent know them by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from midwatch.trace.columns import whole
from midwatch.trace.load import Trace

if TYPE_CHECKING:
    from midwatch.model.tracks import Tracks


def aliases(native_id: int, ident: int) -> tuple[int, ...]:
    """All numbers under which a trace may know the thread: its native id, or the low half of ``pthread_self``."""
    low = ident & 0xFFFFFFFF
    signed = low - (1 << 32) if low >= 1 << 31 else low
    return tuple(n for n in (native_id, ident, low, abs(signed), low & 0x7FFFFFFF) if n)


@dataclass(frozen=True, slots=True)
class Threads:
    """Lanes of one thread, and the number to show for a lane."""

    by_number: dict[int, tuple[int, ...]]
    """Native id of a thread: the lanes of the trace that are this thread."""
    native: dict[int, int]
    """Lane of the trace: native id, or the trace's own number where the agent does not know the thread."""

    def lanes(self, native_id: int) -> tuple[int, ...]:
        """Lanes of the trace for a thread the agent named."""
        return self.by_number.get(native_id, ())


def map_threads(trace: Trace) -> Threads:
    """Match the trace's threads with the agent's."""
    known: dict[int, int] = {}
    if trace.tracks is not None:
        for native_id, ident in _agents(trace.tracks):
            for alias in aliases(native_id, ident):
                known.setdefault(alias, native_id)
    by_number: dict[int, list[int]] = {}
    native: dict[int, int] = {}
    for lane, (kind, _, tid) in enumerate(trace.lanes):
        if kind != "host":
            continue
        number = whole(tid)
        owner = known.get(number, number)
        native[lane] = owner
        by_number.setdefault(owner, []).append(lane)
    return Threads({number: tuple(lanes) for number, lanes in by_number.items()}, native)


def _agents(tracks: Tracks) -> list[tuple[int, int]]:
    found = [(t.native_id, t.ident) for t in tracks.threads]
    found += [(r.thread_id, r.thread_ident) for r in tracks.requests]
    found += [(u.thread_id, u.thread_ident) for u in tracks.units]
    return [(native, ident) for native, ident in found if native]
