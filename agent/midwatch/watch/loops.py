"""Whether a thread is still in the loop from which it made a call, read from the byte code."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType
from typing import NamedTuple

from midwatch.watch.bytecode import JUMPS, jump_target, op_at, op_from
from midwatch.watch.stacks import DEPTH, Stack

_MAX_KNOWN = 256


class Loop(NamedTuple):
    """The units of byte code of one loop, both ends included."""

    code: CodeType
    first: int
    last: int

    def left_by(self, stack: Stack) -> bool:
        """Return whether a thread with this stack is outside of the loop."""
        here = [spot.lasti // 2 for spot in stack if spot.code is self.code]
        if any(self.first <= unit <= self.last for unit in here):
            return False
        return bool(here) or len(stack) < DEPTH  # the function may lie beyond what is kept of a deep stack


class Loops:
    """Finds the loop around a call, and remembers it."""

    def __init__(self) -> None:
        # By the identity of the code, which the tuple keeps alive.
        self._known: dict[tuple[int, int], tuple[CodeType, Loop | None]] = {}

    def around(self, callers: Iterable[tuple[CodeType, int]]) -> Loop | None:
        """Return the innermost loop around a call, given where each of its callers stands, the innermost first."""
        for code, lasti in callers:
            key = id(code), lasti
            if key not in self._known:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[key] = code, loop_at(code, lasti)
            loop = self._known[key][1]
            if loop is not None:
                return loop
        return None


def loop_at(code: CodeType, lasti: int) -> Loop | None:
    """Return the innermost loop around byte ``lasti`` of ``code``; None where there is none.

    A loop is what lies between a jump backward and its target. That of a ``for`` ends where it goes on when there is
    nothing more, since an exception's handler, from which one may jump back too, lies at the end of the function.
    """
    raw = code.co_code
    here = op_at(raw, lasti // 2).unit
    ends: dict[int, int] = {}
    for unit in range(len(raw) // 2):
        if raw[2 * unit] in JUMPS:
            target = jump_target(raw, op_at(raw, unit))
            if target <= here and target <= unit:
                ends[target] = unit
    for target in sorted(ends, reverse=True):
        head = op_from(raw, target)
        last = jump_target(raw, head) - 1 if head.name == "FOR_ITER" else ends[target]
        if here <= last:
            return Loop(code, target, last)
    return None
