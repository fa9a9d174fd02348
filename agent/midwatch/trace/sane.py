"""Leaves out of the agent's tracks what no clock, no stopwatch and no count shows: a file may hold anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midwatch.model.capture import Capture
    from midwatch.model.site import Frame
    from midwatch.model.tracks import Tracks
    from midwatch.model.workload import Workload

LONGEST_NS = 10 * 366 * 86_400 * 1_000_000_000
"""Ten years: no request is under way for so long."""
DAY_NS = 86_400 * 1_000_000_000
"""No window is open for so long."""
LAST_NS = 4_102_444_800 * 1_000_000_000
"""The year 2100."""
MOST = 1 << 40
"""More than any memory holds of anything, and a few thousand of those are still a number of 64 bits."""


def sane(tracks: Tracks) -> tuple[Tracks, int]:
    """Return the tracks without records of impossible times, and how many were left out.

    In those that stay a count, a size or a line that cannot be is 0: not known.
    """
    kept: dict[str, Any] = {}
    left_out = 0
    for name in ("requests", "units", "samples", "gc", "locks", "compiles"):
        rows = getattr(tracks, name)
        good = [row for row in rows if _possible(row)]
        left_out += len(rows) - len(good)
        kept[name] = tuple(good if name == "samples" else map(_mended, good))
    return replace(tracks, capture=_capture(tracks.capture), frames=_framed(tracks.frames), **kept), left_out


def _possible(row: Any) -> bool:
    began: int = row.unix_ns if hasattr(row, "unix_ns") else row.start_unix_ns
    took: int = row.weight_ns if hasattr(row, "weight_ns") else row.duration_ns
    return 0 <= began < LAST_NS and 0 <= took <= LONGEST_NS


def _mended(row: Any) -> Any:
    wrong: dict[str, Any] = {}
    for name in ("generation", "collected", "objects", "requests"):
        if not 0 <= getattr(row, name, 0) <= MOST:
            wrong[name] = 0
    for name in ("frames", "waiter", "holder"):
        frames = getattr(row, name, None)
        if frames and (framed := _framed(frames)) is not frames:
            wrong[name] = framed
    if (workload := getattr(row, "workload", None)) is not None and (sized := _sized(workload)) is not workload:
        wrong["workload"] = sized
    return replace(row, **wrong) if wrong else row


def _framed(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    if all(0 <= frame.line <= MOST for frame in frames):
        return frames
    return tuple([frame if 0 <= frame.line <= MOST else replace(frame, line=0) for frame in frames])


def _sized(workload: Workload) -> Workload:
    return workload if 0 <= workload.batch <= MOST else replace(workload, batch=0)


def _capture(capture: Capture) -> Capture:
    start, end = capture.start_unix_ns, capture.end_unix_ns
    if not (0 <= start < LAST_NS and end - start <= DAY_NS):
        start = end = 0
    return replace(capture, start_unix_ns=start, end_unix_ns=end, workload=_sized(capture.workload))
