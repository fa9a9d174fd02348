"""Marks and units as values of the model: with wall-clock times, and without what must not leave the process."""

from __future__ import annotations

from midwatch.clock import Clock
from midwatch.model.requests import RequestRecord, UnitRecord, Workload
from midwatch.requests.tracker import Mark
from midwatch.requests.units import Unit


class Recorder:
    """Turns marks and units into records."""

    def __init__(self, clock: Clock, *, redact: bool = False) -> None:
        self._clock = clock
        self._redact = redact

    def request(self, mark: Mark, *, warmup: bool = False) -> RequestRecord:
        """Return the record of a request. One that still runs has the duration so far and the status ``running``."""
        running = mark.end_ns == 0
        end_ns = self._clock.perf_ns() if running else mark.end_ns
        extra = mark.extra
        thread_ident, thread_id, thread_name = mark.thread
        return RequestRecord(
            request_id=mark.request_id,
            route=mark.route.name,
            start_unix_ns=self._clock.to_unix(mark.start_ns),
            duration_ns=end_ns - mark.start_ns,
            thread_id=thread_id,
            thread_ident=thread_ident,
            thread_name=self._thread_name(thread_name),
            is_async=mark.is_async,
            # Negative where it ended on another thread that had got the ident of the one that began it.
            cpu_ns=0 if running else max(mark.cpu_ns, 0),
            gc_ns=0 if running else mark.gc_ns,
            in_flight=mark.in_flight,
            status=mark.status,
            trace_id="" if extra is None or self._redact else extra.trace_id,
            compile_events=0 if running else mark.compiles,
            warmup=warmup,
            workload=self.workload(mark),
        )

    def unit(self, unit: Unit) -> UnitRecord:
        """Return the record of a unit that has ended."""
        thread_ident, thread_id, thread_name = unit.thread
        return UnitRecord(
            unit_id=unit.unit_id,
            name=unit.name,
            start_unix_ns=self._clock.to_unix(unit.start_ns),
            duration_ns=unit.end_ns - unit.start_ns,
            thread_id=thread_id,
            thread_ident=thread_ident,
            thread_name=self._thread_name(thread_name),
            requests=unit.requests,
            workload=unit.workload,
        )

    def workload(self, mark: Mark) -> Workload:
        """Return what the request worked on."""
        seen = mark.workload or Workload()
        if mark.extra is None or self._redact:
            return seen
        return Workload(inputs=seen.inputs, batch=seen.batch, notes=tuple(mark.extra.notes.items()))

    def _thread_name(self, name: str) -> str:
        return "" if self._redact else name
