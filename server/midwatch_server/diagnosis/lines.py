"""Which line of a function held the time that its looks enclose.

A thread that runs Python keeps the interpreter for 5 ms (`sys.getswitchinterval`) unless a call lets go of it earlier,
and a look gets through only then. So a look that finds a thread in a call may say no more than where it let go; one
that finds it between two calls has interrupted what ran.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from midwatch.model.blame import own_frame
from midwatch.model.samples import StackSample


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
        for look, share in _shares(seen):
            line = _line(look)
            weights[line] += share * seen.time_ns
            shown.setdefault(line, look)
    return shown[max(weights, key=lambda line: weights[line])]


def _shares(seen: Seen) -> tuple[tuple[StackSample, float], ...]:
    look, before = seen.look, seen.before
    if before is None or _line(before) == _line(look):
        return ((look, 1.0),)
    if _in_call(before) == _in_call(look):
        return ((look, 0.5), (before, 0.5))
    return ((before if _in_call(look) else look, 1.0),)


def _line(look: StackSample) -> int:
    frame = own_frame(look.frames)
    return frame.line if frame else 0


def _in_call(look: StackSample) -> bool:
    return bool(look.frames and look.frames[0].callee)
