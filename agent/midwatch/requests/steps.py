"""`midwatch.step`: a step lasts from one call to the next, so that of the last call is one that nobody ends."""

from __future__ import annotations

import threading
from contextlib import suppress

from midwatch.requests.tracker import Mark, Tracker, installed, safe_end


class Steps:
    """The stretch from one call of `step` to the next on a thread is a request of the route ``step``.

    Where a training goes on to evaluate, to save, or to its end, no step is open any more, and nobody says so. So a
    step is told only when the next one follows, and given up by the watchdog once it is ten seconds overdue.
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
            mark.open_end = True
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
