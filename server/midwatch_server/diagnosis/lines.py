"""Which line of a function held the time that its looks enclose.

A thread that runs Python keeps the interpreter for 5 ms (`sys.getswitchinterval`) unless a call lets go of it earlier,
and a look gets through only then. So a look that finds a thread in a call may say no more than where it let go; one
that finds it between two calls has interrupted what ran.

But a look that waited for its turn for much longer than Python would have kept it waiting has waited for a call written
in C that let nobody through. That call is the one it found the thread in, and the time of waiting is the call's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from midwatch.model.blame import own_frame
from midwatch.model.samples import StackSample

from midwatch_server.diagnosis.activity import returns_at_once

HELD_NS = 15_000_000
"""Three times as long as Python keeps a look waiting."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a thread in a function, and the time before it that is the function's, in nanoseconds.

    ``before`` is the look at the thread before this one, where that found it in the same function.
    """

    look: StackSample
    before: StackSample | None
    time_ns: int


def heaviest(all_seen: Iterable[Seen]) -> StackSample:
    """Return a look at the line that holds most of the time.

    Time between looks at two lines is that of the one that found no call under way; otherwise each has half of it.
    """
    weights: dict[int, float] = defaultdict(float)
    shown: dict[int, StackSample] = {}
    for seen in all_seen:
        for look, time_ns in _shares(seen):
            line = _line(look)
            weights[line] += time_ns
            shown.setdefault(line, look)
    return shown[max(weights, key=lambda line: weights[line])]


def _shares(seen: Seen) -> tuple[tuple[StackSample, float], ...]:
    look, before, time_ns = seen.look, seen.before, seen.time_ns
    if before is None or _line(before) == _line(look) or returns_at_once(before.frames):
        return ((look, time_ns),)
    if _in_call(before) == _in_call(look):
        return ((look, time_ns / 2), (before, time_ns / 2))
    if not _in_call(look):
        return ((look, time_ns),)
    held_ns = min(look.late_ns, time_ns) if look.late_ns >= HELD_NS else 0
    return ((look, held_ns), (before, time_ns - held_ns))


def _line(look: StackSample) -> int:
    frame = own_frame(look.frames)
    return frame.line if frame else 0


def _in_call(look: StackSample) -> bool:
    return bool(look.frames and look.frames[0].callee)
