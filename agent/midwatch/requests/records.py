"""Marks and units as values of the model: with wall-clock times, and without what must not leave the process."""

from __future__ import annotations

from midwatch.clock import Clock
from midwatch.model.requests import RequestRecord, Workload
from midwatch.requests.tracker import Mark


class Recorder:
    """Turns marks into records."""

    def __init__(self, clock: Clock, *, redact: bool = False) -> None:
        self._clock = clock
        self._redact = redact

    def request(self, mark: Mark, *, warmup: bool = False) -> RequestRecord:
        """Return the record of a request. One that still runs has the duration so far and the status ``running``."""
        running = mark.end_ns == 0
        end_ns = self._clock.perf_ns() if running else mark.end_ns
        extra = mark.extra
        return RequestRecord(
            request_id=mark.request_id,
            route=mark.route.name,
            start_unix_ns=self._clock.to_unix(mark.start_ns),
            duration_ns=end_ns - mark.start_ns,
            thread_id=mark.thread_id,
            thread_ident=mark.thread_ident,
            thread_name=self.thread_name(mark.thread_name),
            is_async=mark.is_async,
            cpu_ns=0 if running else mark.cpu_ns,
            gc_ns=0 if running else mark.gc_ns,
            in_flight=mark.in_flight,
            status=mark.status,
            trace_id="" if extra is None or self._redact else extra.trace_id,
            compile_events=0 if running else mark.compiles,
            warmup=warmup,
            workload=self.workload(mark),
        )

    def workload(self, mark: Mark) -> Workload:
        """Return what the request worked on."""
        extra = mark.extra
        if extra is None:
            return Workload()
        seen = extra.workload or Workload()
        notes = () if self._redact else tuple(extra.notes.items())
        return Workload(inputs=seen.inputs, batch=seen.batch, notes=notes)

    def thread_name(self, name: str) -> str:
        """Return the name of a thread, "" where names are hidden."""
        return "" if self._redact else name
