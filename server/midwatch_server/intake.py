"""Turns a batch from the wire into rows: decodes it, checks it, writes raw traces to disk and has the rest diagnosed.

It needs time but no database, so it runs in threads of its own before the writer sees the batch.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis, Verdict
from midwatch.model.requests import RouteStats
from midwatch.model.resource import Resource
from midwatch.model.samples import GpuSample, HostSample
from midwatch.model.spike import Spike
from midwatch.model.status import AgentStatus
from midwatch.wire import from_message
from midwatch_proto.v1 import ingest_pb2

from midwatch_server import incidents
from midwatch_server.diagnosis import Evidence, diagnose
from midwatch_server.diagnosis.failures import RULE_FAILED, in_words
from midwatch_server.errors import (
    BatchRejectedError,
    FigureError,
    RecordRejectedError,
    StoreUnavailableError,
    TooLongError,
)
from midwatch_server.figures import Mended, checked
from midwatch_server.limits import MAX_ID, MAX_NAME, bounded
from midwatch_server.store import Intake, rows
from midwatch_server.store.traces import TraceFiles, checked_name

log = logging.getLogger("midwatch.collector")

_RESOURCE = "a resource"
_MOST_REMARKS = 16
"""Of one batch, so that what a sender makes up does not grow in the log."""


def prepare(batch: ingest_pb2.Batch, traces: TraceFiles, received_unix_ns: int | None = None) -> Intake:
    """Return what is to be stored of ``batch``. Chunks of raw traces are on disk when this returns.

    Raises `BatchRejectedError` for a batch that says not whose it is, `StoreUnavailableError` where the disk is full.
    """
    now_unix_ns = time.time_ns() if received_unix_ns is None else received_unix_ns
    resource, mended = _checked_resource(batch)
    sorter = _Sorter(resource, traces, now_unix_ns)
    sorter.remark(_RESOURCE, mended)
    for record in batch.records:
        sorter.take(record)
    return sorter.intake(batch)


class _Sorter:
    """Collects the rows of one batch, and counts the records that it cannot take."""

    def __init__(self, resource: Resource, traces: TraceFiles, now_unix_ns: int) -> None:
        self._resource = resource
        self._traces = traces
        self._now_unix_ns = now_unix_ns
        self._status: AgentStatus | None = None
        self._route_stats: list[rows.Row] = []
        self._gpu: list[rows.Row] = []
        self._host: list[rows.Row] = []
        self._spikes: dict[str, rows.Row] = {}
        self._capture_rows: dict[str, rows.Row] = {}
        self._captures: dict[str, Capture] = {}
        self._trace_rows: list[rows.Row] = []
        self._sightings: list[incidents.Sighting] = []
        self._rejected = 0
        self._reason = ""
        self._remarks: dict[str, int] = {}
        self._mended = Mended()
        """Of the record that is being taken."""
        self._handlers: dict[str, Callable[[Any], None]] = {
            "route_stats": self._take_route_stats,
            "gpu_sample": self._take_gpu,
            "host_sample": self._take_host,
            "spike": self._take_spike,
            "capture": self._take_capture,
            "trace_chunk": self._take_chunk,
            "agent_status": self._take_status,
        }

    def take(self, record: ingest_pb2.Record) -> None:
        """Sort one record in. One that cannot be stored is counted, and the first reason is kept for the answer."""
        kind = record.WhichOneof("record")
        try:
            if kind is None:
                raise RecordRejectedError("a record is of a kind that this collector does not know")
            message = getattr(record, kind)
            what = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind.replace('_', ' ')}"
            bounded(message)
            self._mended = checked(message, what, self._now_unix_ns)
            self._handlers[kind](message)
            self.remark(what, self._mended)
        except (RecordRejectedError, TooLongError, FigureError) as error:
            self._reject(str(error))
            if kind == "capture":
                self._give_up(record.capture, str(error))
        except StoreUnavailableError:
            raise
        except Exception as error:
            log.error("a %s of agent %s cannot be stored: %s", kind, self._resource.agent_id, in_words(error))  # noqa: TRY400 - one line
            self._reject("the collector failed on this record; its log says how")

    def _reject(self, reason: str) -> None:
        self._rejected += 1
        self._reason = self._reason or reason
        self._remark(f"a record was refused: {reason}")

    def _give_up(self, message: Any, reason: str) -> None:
        """Store in place of a capture that it was refused, and why: somebody may wait for it."""
        ids = (message.capture_id, message.command_id)
        with contextlib.suppress(RecordRejectedError):
            checked_name(message.capture_id, "capture")
            if max(map(len, ids)) <= MAX_ID:
                detail = f"the collector refused it: {reason}"
                capture = Capture(ids[0], message.reason[:MAX_NAME], "failed", detail=detail, command_id=ids[1])
                self._keep_capture(replace(capture, start_unix_ns=self._now_unix_ns), diagnosis_of(capture))

    def remark(self, what: str, mended: Mended) -> None:
        """Note for the log what was left out of ``what``."""
        for caveat in mended.caveats():
            self._remark(f"of {what}: {caveat.text}")

    def _remark(self, sentence: str) -> None:
        if sentence in self._remarks or len(self._remarks) < _MOST_REMARKS:
            self._remarks[sentence] = self._remarks.get(sentence, 0) + 1

    def intake(self, batch: ingest_pb2.Batch) -> Intake:
        """Return everything taken."""
        return Intake(
            batch={
                "agent_id": batch.agent_id,
                "batch_id": batch.batch_id,
                "received_unix_ns": self._now_unix_ns,
                "records": len(batch.records),
                "rejected_records": self._rejected,
                "reason": self._reason,
            },
            agent=rows.agent_row(self._resource, self._status, self._now_unix_ns),
            route_stats=tuple(self._route_stats),
            gpu_samples=tuple(self._gpu),
            host_samples=tuple(self._host),
            spike_rows=tuple(self._spikes.values()),
            capture_rows=tuple(self._capture_rows.values()),
            trace_rows=tuple(self._trace_rows),
            captures=tuple(self._captures.values()),
            sightings=tuple(self._sightings),
            remarks=tuple(self._remarks.items()),
        )

    def _take_route_stats(self, message: Any) -> None:
        stats: RouteStats = from_message(message)
        self._route_stats.append(rows.route_stats_row(stats, self._resource))

    def _take_gpu(self, message: Any) -> None:
        sample: GpuSample = from_message(message)
        self._gpu.append(rows.gpu_row(sample, self._resource))

    def _take_host(self, message: Any) -> None:
        sample: HostSample = from_message(message)
        self._host.append(rows.host_row(sample, self._resource))

    def _take_status(self, message: Any) -> None:
        self._status = from_message(message)

    def _take_spike(self, message: Any) -> None:
        spike: Spike = from_message(message)
        checked_name(spike.spike_id, "spike")
        evidence = Evidence(spike=spike, baseline=spike.baseline, workload=spike.request.workload)
        diagnosis = self._with_caveats(judged(evidence, spike.spike_id))
        self._spikes[spike.spike_id] = rows.spike_row(spike, diagnosis, self._resource)
        self._sightings.extend(incidents.of_spike(spike, diagnosis, self._resource))

    def _take_capture(self, message: Any) -> None:
        capture: Capture = from_message(message)
        checked_name(capture.capture_id, "capture")
        if capture.summary is not None and not capture.start_unix_ns:  # else what it shows would date from 1970
            capture = replace(capture, start_unix_ns=self._now_unix_ns)
        capture = replace(capture, caveats=(*capture.caveats, *self._mended.caveats()))
        diagnosis = self._with_caveats(diagnosis_of(capture))
        self._keep_capture(capture, diagnosis)
        self._sightings.extend(incidents.of_capture(capture, diagnosis, self._resource))

    def _with_caveats(self, diagnosis: Diagnosis) -> Diagnosis:
        return replace(diagnosis, caveats=(*diagnosis.caveats, *self._mended.caveats()))

    def _keep_capture(self, capture: Capture, diagnosis: Diagnosis) -> None:
        self._capture_rows[capture.capture_id] = rows.capture_row(capture, diagnosis, self._resource)
        self._captures[capture.capture_id] = rows.light_capture(capture)

    def _take_chunk(self, chunk: Any) -> None:
        complete = self._traces.write(
            chunk.capture_id, chunk.offset, chunk.data, last=chunk.last, total_bytes=chunk.total_bytes
        )
        if complete:
            self._trace_rows.append(
                {
                    "capture_id": chunk.capture_id,
                    "agent_id": self._resource.agent_id,
                    "bytes": chunk.total_bytes,
                    "stored_unix_ns": self._now_unix_ns,
                }
            )


def diagnosis_of(capture: Capture) -> Diagnosis:
    """Return what a capture shows; one without a summary shows nothing, for the reason that it gives."""
    if capture.summary is None:
        return Diagnosis(Verdict.INSUFFICIENT_DATA, reason=capture.detail or f"The window was {capture.state}.")
    evidence = Evidence(summary=capture.summary, baseline=capture.baseline, workload=capture.workload)
    return judged(evidence, capture.capture_id)


def judged(evidence: Evidence, of: str) -> Diagnosis:
    """Return the diagnosis. What fails costs what it would have found, and a line in the log, never the evidence."""
    try:
        diagnosis = diagnose(evidence)
    except Exception as error:
        log.error("%s could not be diagnosed: %s", of, in_words(error))  # noqa: TRY400 - one line
        return Diagnosis(Verdict.INSUFFICIENT_DATA, reason="It could not be diagnosed; the collector's log says why.")
    for caveat in diagnosis.caveats:
        if caveat.code == RULE_FAILED:
            log.error("%s: %s", of, caveat.text)
    return diagnosis


def _checked_resource(batch: ingest_pb2.Batch) -> tuple[Resource, Mended]:
    if not batch.agent_id or not batch.batch_id:
        raise BatchRejectedError("a batch needs an agent_id and a batch_id")
    if max(len(batch.agent_id), len(batch.batch_id)) > MAX_ID:
        raise BatchRejectedError(f"agent_id and batch_id have at most {MAX_ID} characters")
    if batch.resource.agent_id != batch.agent_id:
        raise BatchRejectedError("the batch and its resource name different agents")
    if not 0 < len(batch.resource.service) <= MAX_NAME:
        raise BatchRejectedError(f"a service has a name of 1 to {MAX_NAME} characters; set MIDWATCH_SERVICE")
    try:
        mended = checked(batch.resource, _RESOURCE)
    except FigureError as error:
        raise BatchRejectedError(str(error)) from error
    resource: Resource = from_message(batch.resource)
    return resource, mended
