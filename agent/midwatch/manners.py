"""Manners of a guest: long work in Python is done in small pieces, so that the service's threads get their turn."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator

from midwatch.clock import Clock

PIECE_NS = 200_000
REST_S = 0.0003
LEISURE_S = 0.002
CALM_S = 0.02
"""How long to wait for a moment in which nothing is in flight. A service at its limit has none."""
"""Ten pieces: whatever has to be done, a request of a few milliseconds meets one or two of them."""
_before: tuple[int, int, int] | None = None
"""The collector's thresholds before they were raised; None while they are not."""


class GiveWay:
    """Called between the steps of a long work, sleeps for a moment once `PIECE_NS` have passed since it last did.

    The interpreter alone would let another thread wait for its whole switch interval, once for every time that the
    other thread lets go of the GIL, and a request lets go of it dozens of times.
    """

    def __init__(self, clock: Clock, piece_ns: int = PIECE_NS, rest_s: float = REST_S) -> None:
        self._clock = clock
        self._piece_ns = piece_ns
        self._rest_s = rest_s
        self._since_ns = clock.perf_ns()

    def __call__(self) -> None:
        """Rest, if it is time."""
        if self._clock.perf_ns() - self._since_ns >= self._piece_ns:
            self._rest()
            self._since_ns = self._clock.perf_ns()

    def _rest(self) -> None:
        self._clock.sleep(self._rest_s)


class AtLeisure(GiveWay):
    """Gives way for longer as long as nobody waits for the work, as with statistics.

    With short rests a work of ten milliseconds doubles the latency of each request within twenty; with long ones it
    adds a tenth to each within a hundred. Where a service has pauses between its requests, pieces are done in these,
    and most requests meet none.

    Args:
        clock: the time.
        urgent: asked before each rest; where it says so the rest is short.
        calm: waits for a moment in which nothing is in flight, at most as many seconds as it is given; returns
            whether there was one.
    """

    def __init__(self, clock: Clock, urgent: Callable[[], bool], calm: Callable[[float], bool]) -> None:
        super().__init__(clock)
        self._urgent = urgent
        self._calm = calm
        self._restless = False
        """Whether no such moment came in this work: to wait for it again and again would take seconds."""
        self._hurried = False

    def begin(self, *, hurried: bool) -> None:
        """Begin another work; ``hurried`` where somebody waits for it from the start."""
        self._hurried = hurried
        self._restless = not hurried and not self._calm(CALM_S)
        self._since_ns = self._clock.perf_ns()

    def _rest(self) -> None:
        if self._hurried or self._urgent():
            self._clock.sleep(REST_S)
        else:
            self._clock.sleep(LEISURE_S)
            self._restless = self._restless or not self._calm(CALM_S)


@contextlib.contextmanager
def few_collections(threshold: int = 1_000_000) -> Iterator[None]:
    """Have the garbage collector come seldom while the block lasts, as for imports.

    Thousands of new objects set off collections of all generations, in which the GIL is held while the host's whole
    heap is searched: 150 ms once torch is imported. The threshold belongs to the process, so it is raised for that
    moment only, not where the collector is off, and put back only where nobody else has changed it meanwhile.
    """
    global _before
    before = gc.get_threshold()
    if not 0 < before[0] < threshold:
        yield
        return
    _before = before
    gc.set_threshold(threshold, *before[1:])
    raised = gc.get_threshold()
    try:
        yield
    finally:
        _before = None
        if gc.get_threshold() == raised:
            gc.set_threshold(*before)


def _after_fork() -> None:
    """In a child that was forked inside the block the thread that would put the threshold back is gone."""
    global _before
    if _before is not None:
        gc.set_threshold(*_before)
        _before = None


os.register_at_fork(after_in_child=_after_fork)
