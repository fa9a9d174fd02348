"""What each route did since the last report."""

from __future__ import annotations

from midwatch.model.requests import RouteStats
from midwatch.requests.sketch import Sketch


class RouteInterval:
    """Counts of one route in one interval; warm-up requests are counted, but not in the sketch."""

    __slots__ = ("_errors", "_gc_ns", "_requests", "_sketch", "_spikes", "_warmup")

    def __init__(self) -> None:
        self._requests = self._errors = self._warmup = self._spikes = self._gc_ns = 0
        self._sketch = Sketch()

    def add(self, duration_ns: int, gc_ns: int, *, error: bool, warmup: bool, spike: bool) -> None:
        """Count one finished request."""
        self._requests += 1
        self._errors += error
        self._spikes += spike
        self._gc_ns += gc_ns
        if warmup:
            self._warmup += 1
        else:
            self._sketch.add(duration_ns)

    def take(self, route: str, start_unix_ns: int, end_unix_ns: int) -> RouteStats | None:
        """Return the interval as a value and begin a new one; None where nothing happened."""
        if self._requests == 0:
            return None
        stats = RouteStats(
            route=route,
            start_unix_ns=start_unix_ns,
            end_unix_ns=end_unix_ns,
            requests=self._requests,
            errors=self._errors,
            warmup=self._warmup,
            spikes=self._spikes,
            sketch=self._sketch.freeze(),
            gc_ns=self._gc_ns,
        )
        self.__init__()  # type: ignore[misc]
        return stats
