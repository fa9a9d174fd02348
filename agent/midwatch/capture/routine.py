"""When to look without being asked: a fault that is always there never spikes."""

from __future__ import annotations

_SETTLE_S = 5.0
_HOUR_S = 3600.0


class Routine:
    """Says when the next routine look is due: once after warm-up, then ``per_hour`` times an hour."""

    def __init__(self, per_hour: float) -> None:
        self._per_hour = per_hour
        self._due_s = 0.0

    def due(self, now_s: float, *, warmed_up: bool, busy: bool) -> bool:
        """Return whether to look now, at the monotonic time ``now_s``; a look that is due waits for traffic."""
        if self._per_hour <= 0 or not warmed_up:
            return False
        if not self._due_s:
            self._due_s = now_s + _SETTLE_S
        if now_s < self._due_s or not busy:
            return False
        self._due_s = now_s + _HOUR_S / self._per_hour
        return True
