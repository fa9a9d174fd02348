"""`midwatch.step`: a step lasts from one call to the next, so that of the last call is one that nobody ends."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from types import CodeType, FrameType

from midwatch.requests.tracker import Callers, Mark, Tracker, installed, safe_end

_MAX_CALLERS = 16
_PACKAGE = __name__.partition(".")[0] + "."


class Steps:
    """The stretch from one call of `step` to the next on a thread is a request of the route ``step``.

    Where the loop that calls it is left, for an evaluation or for good, no step is open any more. Nobody says so; the
    watchdog sees it by `Mark.callers` once the step is overdue, and gives it up.
    """

    ROUTE = "step"

    def __init__(self) -> None:
        self._here = threading.local()

    def step(self) -> None:
        """End this thread's step, and begin the next one."""
        before: _OpenStep | None = getattr(self._here, "step", None)
        if before is not None:
            safe_end(before.tracker, before.mark, "ok")
        self._here.step = None
        tracker = installed()
        mark = tracker.begin(self.ROUTE) if tracker is not None else None
        if tracker is not None and mark is not None:
            mark.callers = _callers(sys._getframe(1))  # noqa: SLF001 - the one way to one's own callers
            self._here.step = _OpenStep(tracker, mark)


class _OpenStep:
    """The last step of a thread; where the thread ends without another one, nobody knows when it ended."""

    __slots__ = ("mark", "tracker")

    def __init__(self, tracker: Tracker, mark: Mark) -> None:
        self.tracker = tracker
        self.mark = mark

    def __del__(self) -> None:
        with suppress(Exception):
            self.tracker.forget(self.mark.request_id)


def _callers(frame: FrameType | None) -> Callers:
    """Return where the host's functions on this stack stand, the innermost first."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_PACKAGE):
        frame = frame.f_back
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < _MAX_CALLERS:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)
