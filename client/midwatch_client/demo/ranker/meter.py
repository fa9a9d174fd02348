"""Counters of the service, and the thread that reports them."""

from __future__ import annotations

import threading
import time

_EVERY_S = 3.5
_SINK_S = 0.12


class Meter:
    """Counts calls by route; a reporter thread sends the counts on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        threading.Thread(target=self._report, name="reporter", daemon=True).start()

    def count(self, route: str) -> None:
        """Count one call of ``route``."""
        with self._lock:  # FAULT(meter_lock)
            self._counts[route] = self._counts.get(route, 0) + 1

    def _report(self) -> None:
        while True:
            time.sleep(_EVERY_S)
            with self._lock:
                self._send(dict(self._counts))

    def _send(self, _counts: dict[str, int]) -> None:
        """Wait for the metrics sink, which takes its time; the caller holds the lock meanwhile."""
        time.sleep(_SINK_S)
