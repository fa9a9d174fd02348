"""A real gRPC server on loopback with answers made by hand, for the client and its commands."""

from __future__ import annotations

import dataclasses
import enum
import math
import random
import subprocess
import types
import typing
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from midwatch.wire.codec import from_message, to_message
from midwatch_client.api import Client
from midwatch_client.cli import build
from midwatch_proto.v1 import query_pb2, query_pb2_grpc, trigger_pb2, trigger_pb2_grpc
from typer.testing import CliRunner, Result


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
def run(script: Script) -> Callable[..., Result]:
    """Runs a command of the command line against the server."""

    def invoke(*arguments: str, **environment: str) -> Result:
        settings = {"MIDWATCH_COLLECTOR": script.address, "COLUMNS": "200", **environment}
        return CliRunner().invoke(build(), [*arguments], env=settings)

    return invoke


@pytest.fixture
def client(script: Script) -> Iterator[Client]:
    with Client(script.address) as made:
        yield made


@pytest.fixture
def forger() -> type[Forger]:
    return Forger


class Forger:
    """Makes values of the model that no honest agent sends: hostile texts, numbers that are none, lists of any length.

    They pass the wire, so only what protobuf lets through is made.
    """

    TEXTS = (
        "",
        "x",
        "\x1b[2J\x1b]0;mine\x07",
        "a\nb\r\tc",
        "[red]b[/red] [/]",
        "\u202eevil\u2066",
        "\x9b31m",
        "日本" * 30,
    )
    FLOATS = (0.0, 1.0, 0.5, -3.0, 1e-9, 1e300, -1e300, math.nan, math.inf, -math.inf)
    INTS = (0, 1, 2, 7, -1, -5, 1000, 2**63 - 1, -(2**63))

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, hint: Any, depth: int = 0) -> Any:
        """Return a value for one type, as a class's annotations name it."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            inner = next(one for one in arguments if one is not type(None))
            return None if self.random.random() < 0.3 else self.value(inner, depth)
        if origin is tuple:
            if arguments[-1] is not Ellipsis:
                return tuple(self.value(one, depth) for one in arguments)
            longest = 4 if depth < 3 else 2
            return tuple(self.value(arguments[0], depth + 1) for _ in range(self.random.randrange(longest)))
        if dataclasses.is_dataclass(hint):
            hints = typing.get_type_hints(hint)
            return hint(**{field.name: self.value(hints[field.name], depth + 1) for field in dataclasses.fields(hint)})
        if issubclass(hint, enum.Enum):
            return self.random.choice(list(hint))
        choices: dict[type, Any] = {str: self.TEXTS, float: self.FLOATS, int: self.INTS, bool: (True, False)}
        return self.random.choice(choices[hint])

    def sent(self, cls: type) -> Any:
        """Return a forged value of ``cls`` as it comes over the wire."""
        return from_message(to_message(self.value(cls)))


@pytest.fixture
def left_early():
    """Runs commands of the shell in a pipe whose reader leaves before it has read anything."""

    def run(commands):
        return subprocess.run(
            f"set -o pipefail; {commands} | true",
            check=False,
            shell=True,
            executable="/bin/bash",
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run
