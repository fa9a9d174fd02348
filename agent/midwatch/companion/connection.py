"""The channel to the collector, whether anybody is there, and what its errors mean in one sentence."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
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
    # A new channel is to begin anew, not with the pauses of the one before it.
    ("grpc.use_local_subchannel_pool", 1),
    # A proxy for the service's web traffic is no way to the collector.
    ("grpc.enable_http_proxy", 0),
]

_KNOCK_S = 2.0
_SOCKET_FILES = ("unix:", "unix-abstract:")
_CLOSED = (grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)


class Connection:
    """The way to the collector for all streams of the companion.

    While nobody listens at the address (`lost`), the control stream alone looks for the collector, and it looks by
    `knock`, for a tenth of what a call that fails costs; the upload waits. So a dead collector may be looked for every
    few seconds. Where somebody listens, each stream finds out for itself whether it is served: what takes connections
    may have no collector behind it, or let through one of the two.
    """

    def __init__(self, address: str, token: str = "") -> None:
        self.address = address
        self.lost = False
        """Whether nobody answered the last knock."""
        self.misses = 0
        """Knocks that nobody answered."""
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._lock = threading.Lock()
        self._channel: Any = None

    def attach(self, messages: Iterator[Any]) -> Any:
        """Begin a command stream and return the call."""
        with self._lock:
            return ControlServiceStub(self._open()).Attach(messages, metadata=self._metadata)

    def upload(self, requests: Iterator[Any]) -> Any:
        """Begin a stream of batches and return the call."""
        with self._lock:
            return IngestServiceStub(self._open()).Upload(requests, metadata=self._metadata)

    def knock(self) -> str:
        """Look whether anybody listens at the address. Return "", or in one sentence why nobody does.

        Where nobody does, the channel is given up, and with it what it remembers: after a long outage it asks for a
        name that was not known once in two minutes only, and a new one asks at once.
        """
        where = _host_and_port(self.address)
        if where is None:
            return ""
        try:
            socket.create_connection(where, _KNOCK_S).close()
        except (OSError, OverflowError, UnicodeError) as error:
            self.lost = True
            self.misses += 1
            self.close()
            return f"no collector at {self.address}: {_short(str(error))}"
        self.lost = False
        return ""

    def close(self) -> None:
        """Cancel all streams and close the channel; the next stream opens a new one."""
        with self._lock:
            channel, self._channel = self._channel, None
            if channel is not None:
                channel.close()

    def _open(self) -> Any:
        if self._channel is None:
            self._channel = grpc.insecure_channel(self.address, options=_OPTIONS)
        return self._channel

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


def _host_and_port(address: str) -> tuple[str, int] | None:
    """Return where to knock; None for a socket file, ``dns:host:port`` and others that gRPC alone understands."""
    host, _, port = address.rpartition(":")
    scheme = ":" in host and not host.startswith("[")
    if scheme or "/" in host or not port.isdecimal() or address.startswith(_SOCKET_FILES):
        return None
    return host.strip("[]"), int(port)


def _short(details: str) -> str:
    lowered = details.lower()
    for sign, words in (
        ("connection refused", "connection refused"),
        ("dns resolution failed", "its name is not known"),
        ("errors resolving", "its name is not known"),
        ("name resolution", "its name is not known"),
        ("name or service not known", "its name is not known"),
        ("no address associated", "its name is not known"),
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
