"""The channel to the collector, and what its errors mean in one sentence."""

from __future__ import annotations

from typing import Any

import grpc
from midwatch_proto.v1.control_pb2_grpc import ControlServiceStub
from midwatch_proto.v1.ingest_pb2_grpc import IngestServiceStub

_OPTIONS = [
    # Only while a stream is open. The collector allows a ping every 5 s; who pings more often is sent away.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # The companion does the waiting, with jitter; the channel must not add long pauses of its own.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A proxy for the service's web traffic is no way to the collector.
    ("grpc.enable_http_proxy", 0),
]

_CLOSED = (grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)


class Connection:
    """One channel for the life of the companion; gRPC connects it again when it broke."""

    def __init__(self, address: str, token: str = "") -> None:
        self.address = address
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self.ingest = IngestServiceStub(self._channel)
        self.control = ControlServiceStub(self._channel)

    def close(self) -> None:
        """Cancel all streams and close the channel."""
        self._channel.close()

    def explain(self, error: Any) -> str:
        """Say in one sentence what a failed call means for the person who runs the service."""
        code, details = error.code(), str(error.details() or "")
        if code == grpc.StatusCode.UNAVAILABLE:
            return f"no collector at {self.address}: {_short(details)}"
        if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            return f"the collector at {self.address} refuses this agent's token: set MIDWATCH_TOKEN to a valid one"
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return f"what answers at {self.address} is no Midwatch collector, or an older one"
        if code in _CLOSED:
            return f"the collector at {self.address} did not answer in time"
        return f"the collector at {self.address} failed: {details or code.name.lower()}"


def _short(details: str) -> str:
    lowered = details.lower()
    for sign, words in (
        ("connection refused", "connection refused"),
        ("dns resolution failed", "its name is not known"),
        ("errors resolving", "its name is not known"),
        ("timed out", "no answer"),
        ("timeout", "no answer"),
        ("socket closed", "it closed the connection"),
        ("connection reset", "it closed the connection"),
        ("no route to host", "no route to it"),
        ("unreachable", "its network cannot be reached"),
    ):
        if sign in lowered:
            return words
    return " ".join(details.split())[:120] or "not reachable"
