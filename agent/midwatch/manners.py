"""Manners of a guest: long work in Python is done in small pieces, so that the service's threads get their turn."""

from __future__ import annotations

from midwatch.clock import Clock

PIECE_NS = 200_000
REST_S = 0.0003


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
            self._clock.sleep(self._rest_s)
            self._since_ns = self._clock.perf_ns()
