"""A real gRPC server on loopback with answers made by hand, for the client and its commands."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from midwatch.wire.codec import to_message
from midwatch_client.api import Client
from midwatch_proto.v1 import query_pb2, query_pb2_grpc, trigger_pb2, trigger_pb2_grpc


class Script(query_pb2_grpc.QueryServiceServicer, trigger_pb2_grpc.TriggerServiceServicer):
    """Says what a test told it to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.agents: list[Any] = []
        self.incidents: list[Any] = []
        self.details: dict[str, Any] = {}
        self.captures: dict[str, Any] = {}
        self.spikes: dict[str, Any] = {}
        self.pieces: list[bytes] = []
        self.sightings: list[query_pb2.WatchIncidentsResponse] = []
        self.steps: list[trigger_pb2.TriggerEvent] = []
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.metadata: dict[str, str] = {}
        self.address = ""

    def _enter(self, request: Any, context: grpc.ServicerContext) -> None:
        self.asked.append(request)
        self.metadata = dict(context.invocation_metadata())
        if self.refusal:
            context.abort(*self.refusal)

    def _named(self, things: dict[str, Any], prefix: str, context: grpc.ServicerContext) -> Any:
        for name, thing in things.items():
            if name.startswith(prefix):
                return to_message(thing)
        return context.abort(grpc.StatusCode.NOT_FOUND, f"there is nothing by the id {prefix}")

    def ListAgents(self, request, context):
        self._enter(request, context)
        return query_pb2.ListAgentsResponse(agents=[to_message(one) for one in self.agents])

    def ListIncidents(self, request, context):
        self._enter(request, context)
        return query_pb2.ListIncidentsResponse(incidents=[to_message(one) for one in self.incidents])

    def GetIncident(self, request, context):
        self._enter(request, context)
        return query_pb2.GetIncidentResponse(incident=self._named(self.details, request.incident_id, context))

    def GetCapture(self, request, context):
        self._enter(request, context)
        return query_pb2.GetCaptureResponse(capture=self._named(self.captures, request.capture_id, context))

    def GetSpike(self, request, context):
        self._enter(request, context)
        return query_pb2.GetSpikeResponse(spike=self._named(self.spikes, request.spike_id, context))

    def GetTrace(self, request, context):
        self._enter(request, context)
        for piece in self.pieces:
            yield query_pb2.GetTraceResponse(data=piece, total_bytes=sum(map(len, self.pieces)))
        if not self.pieces:
            context.abort(grpc.StatusCode.NOT_FOUND, "raw traces were not allowed (MIDWATCH_RAW_TRACES)")

    def WatchIncidents(self, request, context):
        self._enter(request, context)
        yield from self.sightings

    def Trigger(self, request, context):
        self._enter(request, context)
        yield from self.steps


@pytest.fixture
def script() -> Iterator[Script]:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    made = Script()
    query_pb2_grpc.add_QueryServiceServicer_to_server(made, server)
    trigger_pb2_grpc.add_TriggerServiceServicer_to_server(made, server)
    made.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield made
    finally:
        server.stop(None).wait(5)


@pytest.fixture
def client(script: Script) -> Iterator[Client]:
    with Client(script.address) as made:
        yield made
