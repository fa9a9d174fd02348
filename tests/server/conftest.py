"""Hand-made values, and a real collector on a free port with a database in a temporary folder."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from midwatch.model.capture import Capture
from midwatch.model.requests import LatencySketch, RequestRecord, RouteStats
from midwatch.model.resource import Resource
from midwatch.model.samples import GcPause, GpuSample, HostSample
from midwatch.model.site import Frame, Site
from midwatch.model.spike import Baseline, Spike
from midwatch.model.status import AgentStatus
from midwatch.model.trace import GcFacts, RequestFacts, TraceSummary, Window
from midwatch.wire import to_message
from midwatch_proto.v1 import (
    control_pb2,
    control_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    query_pb2_grpc,
    trigger_pb2_grpc,
)
from midwatch_server.app import Collector
from midwatch_server.settings import CollectorSettings

T0 = 1_700_000_000_000_000_000
MS = 1_000_000


def make_resource(agent_id: str = "agent-1", service: str = "ranker", pid: int = 10) -> Resource:
    return Resource(agent_id, service, service_version="1.2", host="host-a", pid=pid)


def make_spike(
    spike_id: str = "spike-1", *, route: str = "rank", line: int = 12, at_ns: int = T0, explained: bool = True
):
    """A request that a call of gc.collect held for 250 of its 300 ms, or one with nothing to explain it."""
    frames = (Frame("shop/audit.py", line, "clean", "shop.audit", "collect"),)
    pause = GcPause(at_ns + 10 * MS, 250 * MS, 2, 100, 5, 5, explicit=True, frames=frames)
    request = RequestRecord(1, route, at_ns, 300 * MS, thread_id=5, thread_ident=5)
    return Spike(spike_id, request, 50.0, "sketch", Baseline(1000, 10.0, 12.0, 20.0), gc=(pause,) if explained else ())


def make_capture(
    capture_id: str = "capture-1", *, state: str = "done", spike_id: str = "", command_id: str = "", **rest: Any
):
    """A window of eight requests of 300 ms with a gc.collect of 250 ms in each, or one without a summary."""
    site = Site("shop/audit.py", 12, "clean", "shop.audit", exact=True, how="gc_callback", callee="collect")
    facts = tuple(
        RequestFacts("rank", 400.0 * i, 300.0, thread_id=5, gc_ms=250.0, host_busy_ms=300.0) for i in range(8)
    )
    summary = TraceSummary(
        file="trace.json",
        window=Window(T0, 3200.0, "ledger", 8, lanes=("host_ops", "ledger", "samples")),
        requests=tuple(facts),
        request_p50_ms=300.0,
        gc=(GcFacts(2, 8, 2000.0, 250.0, 8, 250.0, explicit=True, thread_id=5, site=site),),
    )
    return Capture(
        capture_id,
        "spike" if spike_id else "demand",
        state,
        engine="capped",
        spike_id=spike_id,
        command_id=command_id,
        route="rank",
        start_unix_ns=T0 + 1000 * MS,
        baseline=Baseline(1000, 300.0, 310.0, 320.0),
        summary=summary if state == "done" else None,
        **rest,
    )


def make_stats(route: str = "rank") -> RouteStats:
    return RouteStats(
        route, T0, T0 + 10_000 * MS, 10, 1, 2, 1, LatencySketch(0.01, 8, 80 * MS, MS, 20 * MS, ((700, 8),))
    )


_FIELDS: dict[type, str] = {
    RouteStats: "route_stats",
    GpuSample: "gpu_sample",
    HostSample: "host_sample",
    Spike: "spike",
    Capture: "capture",
    AgentStatus: "agent_status",
}
_numbers = itertools.count(1)


def make_batch(*records: Any, resource: Resource | None = None, batch_id: str = "") -> ingest_pb2.Batch:
    """A batch of model values and ready-made records."""
    resource = resource or make_resource()
    batch = ingest_pb2.Batch(
        agent_id=resource.agent_id,
        batch_id=batch_id or f"batch-{next(_numbers)}",
        created_unix_ns=T0,
        resource=to_message(resource),
    )
    for record in records:
        if isinstance(record, ingest_pb2.Record):
            batch.records.append(record)
        else:
            batch.records.append(ingest_pb2.Record(**{_FIELDS[type(record)]: to_message(record)}))
    return batch


def make_chunk(capture_id: str, offset: int, data: bytes, *, total: int, last: bool = False) -> ingest_pb2.Record:
    chunk = ingest_pb2.TraceChunk(capture_id=capture_id, offset=offset, data=data, last=last, total_bytes=total)
    return ingest_pb2.Record(trace_chunk=chunk)


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """The makers above, for tests that cannot import this file."""
    return SimpleNamespace(
        resource=make_resource,
        spike=make_spike,
        capture=make_capture,
        stats=make_stats,
        batch=make_batch,
        chunk=make_chunk,
        T0=T0,
        MS=MS,
    )


class Peer:
    """Talks to a collector as agents and people do."""

    def __init__(self, collector: Collector) -> None:
        self._held: list[Any] = []
        self.collector = collector
        self.channel = grpc.aio.insecure_channel(collector.address)
        self.query = query_pb2_grpc.QueryServiceStub(self.channel)
        self.trigger = trigger_pb2_grpc.TriggerServiceStub(self.channel)
        self.ingest = ingest_pb2_grpc.IngestServiceStub(self.channel)
        self.control = control_pb2_grpc.ControlServiceStub(self.channel)

    async def upload(self, *batches: ingest_pb2.Batch) -> list[ingest_pb2.UploadResponse]:
        """Send batches on one stream and return the answers."""
        return [answer async for answer in self.ingest.Upload(ingest_pb2.UploadRequest(batch=one) for one in batches)]

    async def attach(self, resource: Resource | None = None, status: AgentStatus | None = None) -> Any:
        """Return a command stream of which the first ping has been read."""
        call = self.control.Attach()
        self._held.append(call)  # gRPC cancels a call that nobody holds
        hello = control_pb2.AgentHello(resource=to_message(resource or make_resource()))
        if status is not None:
            hello.status.CopyFrom(to_message(status))
        await call.write(control_pb2.AgentMessage(hello=hello))
        assert (await call.read()).WhichOneof("message") == "ping"
        return call


@pytest.fixture
async def collector(tmp_path) -> AsyncIterator[Collector]:
    running = Collector(CollectorSettings(str(tmp_path / "midwatch.db"), "127.0.0.1:0"))
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def peer(collector) -> AsyncIterator[Peer]:
    one = Peer(collector)
    yield one
    await one.channel.close()


@pytest.fixture(scope="session")
def peer_of() -> type[Peer]:
    return Peer
