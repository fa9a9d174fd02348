"""Edges between requests: Kineto drops a record that crosses the border of its window, and the long wait one looks for
with it. So windows open and close, where they can, while no request is in flight.
"""

from __future__ import annotations

import threading

from midwatch.clock import Clock
from midwatch.requests.tracker import Tracker

EDGE_S = 0.05
_STEP_S = 0.0005


def wait_for_edge(tracker: Tracker, clock: Clock, stop: threading.Event, limit_s: float = EDGE_S) -> bool:
    """Wait until no request is in flight, at most ``limit_s``. Return whether such a moment came."""
    limit_ns = clock.perf_ns() + int(limit_s * 1e9)
    while tracker.count():
        if clock.perf_ns() >= limit_ns or stop.is_set():
            return False
        clock.sleep(_STEP_S)
    return True
