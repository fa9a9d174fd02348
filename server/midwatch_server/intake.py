"""Turns a batch from the wire into rows: decodes it, checks it, writes raw traces to disk and has the rest diagnosed.

It needs time but no database, so it runs in threads of its own before the writer sees the batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
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
from midwatch_server.figures import checked
from midwatch_server.limits import MAX_ID, MAX_NAME, bounded
from midwatch_server.store import Intake, rows
from midwatch_server.store.traces import TraceFiles, checked_name

log = logging.getLogger("midwatch.collector")


def prepare(batch: ingest_pb2.Batch, traces: TraceFiles, received_unix_ns: int | None = None) -> Intake:
    """Return what is to be stored of ``batch``. Chunks of raw traces are on disk when this returns.

    Raises `BatchRejectedError` for a batch that says not whose it is, `StoreUnavailableError` where the disk is full.
    """
    now_unix_ns = time.time_ns() if received_unix_ns is None else received_unix_ns
    resource = _checked_resource(batch)
    sorter = _Sorter(resource, traces, now_unix_ns)
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
            bounded(message)
            checked(message, f"a {kind.replace('_', ' ')}")
            self._handlers[kind](message)
        except (RecordRejectedError, TooLongError, FigureError) as error:
            self._reject(str(error))
        except StoreUnavailableError:
            raise
        except Exception as error:
            log.error("a %s of agent %s cannot be stored: %s", kind, self._resource.agent_id, in_words(error))  # noqa: TRY400 - one line
            self._reject("the collector failed on this record; its log says how")

    def _reject(self, reason: str) -> None:
        self._rejected += 1
        self._reason = self._reason or reason

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
        diagnosis = judged(evidence, spike.spike_id)
        self._spikes[spike.spike_id] = rows.spike_row(spike, diagnosis, self._resource)
        self._sightings.extend(incidents.of_spike(spike, diagnosis, self._resource))

    def _take_capture(self, message: Any) -> None:
        capture: Capture = from_message(message)
        checked_name(capture.capture_id, "capture")
        diagnosis = diagnosis_of(capture)
        self._capture_rows[capture.capture_id] = rows.capture_row(capture, diagnosis, self._resource)
        self._captures[capture.capture_id] = rows.light_capture(capture)
        self._sightings.extend(incidents.of_capture(capture, diagnosis, self._resource))

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


def _checked_resource(batch: ingest_pb2.Batch) -> Resource:
    if not batch.agent_id or not batch.batch_id:
        raise BatchRejectedError("a batch needs an agent_id and a batch_id")
    if max(len(batch.agent_id), len(batch.batch_id)) > MAX_ID:
        raise BatchRejectedError(f"agent_id and batch_id have at most {MAX_ID} characters")
    if batch.resource.agent_id != batch.agent_id:
        raise BatchRejectedError("the batch and its resource name different agents")
    if not 0 < len(batch.resource.service) <= MAX_NAME:
        raise BatchRejectedError(f"a service has a name of 1 to {MAX_NAME} characters; set MIDWATCH_SERVICE")
    try:
        checked(batch.resource, "a resource")
    except FigureError as error:
        raise BatchRejectedError(str(error)) from error
    resource: Resource = from_message(batch.resource)
    return resource
