"""A Python client for a collector: the calls of the command line, with the values of `midwatch.model`.

from midwatch_client.api import Client

with Client("collector:7171") as client:
    for incident in client.incidents(service="ranker"):
        print(incident.title, incident.count)
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from midwatch.model.capture import CaptureOrder
from midwatch.model.finding import Kind
from midwatch.model.incident import CaptureDetail, Incident, IncidentDetail, Occurrence, SpikeDetail
from midwatch.model.resource import Resource
from midwatch.model.status import AgentView
from midwatch.wire.codec import from_message, to_message
from midwatch_proto.v1 import finding_pb2, query_pb2, query_pb2_grpc, trigger_pb2, trigger_pb2_grpc

from midwatch_client.errors import CollectorError, NotFoundError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Client", "CollectorError", "NotFoundError", "Progress", "Sighting"]

T = TypeVar("T")
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_ORDER_GRACE_S = 60.0
_UNRESOLVED = re.compile(r"resolving|resolution|lookup", re.IGNORECASE)
"""In what gRPC says, from version to version in other words, where it had no address to connect to."""
_HOST = re.compile(r"[\w.-]+|\[[0-9a-fA-F:.%\w]+\]")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an ordered window is: ``queued``, ``sent``, ``open``, ``done``, ``refused``, ``failed`` or ``stored``.

    ``unknown`` is a state that only a newer collector knows.
    """

    state: str
    detail: str = ""
    capture_id: str = ""
    agent: Resource | None = None


@dataclass(frozen=True, slots=True)
class Sighting:
    """One sighting of an incident, and the incident as it stands after it."""

    incident: Incident
    occurrence: Occurrence | None


class Client:
    """Talks to one collector. A context manager; every call raises `CollectorError` with a sentence for people."""

    def __init__(self, address: str = "127.0.0.1:7171", *, timeout_s: float = 10.0, token: str = "") -> None:
        """Nothing is sent before the first call.

        Args:
            address: ``host:port`` of the collector's gRPC address.
            timeout_s: how long a question may take; windows and watches have their own.
            token: what the collector asks for, by default ``MIDWATCH_TOKEN``.

        Raises:
            CollectorError: The address is empty.
        """
        if not address:
            raise CollectorError(addressing("", ""))
        self.address = address
        self._timeout_s = timeout_s
        token = token or os.environ.get("MIDWATCH_TOKEN", "")
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.enable_retries", 0)]
        self._channel = grpc.insecure_channel(address, options=options)
        self._query = query_pb2_grpc.QueryServiceStub(self._channel)
        self._trigger = trigger_pb2_grpc.TriggerServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; calls under way end."""
        self._channel.close()

    def agents(self, service: str = "", *, connected_only: bool = False, limit: int = 0) -> tuple[AgentView, ...]:
        """Agents that are or were attached, the latest heard of first."""
        request = query_pb2.ListAgentsRequest(service=service, connected_only=connected_only, limit=limit)
        return _values(AgentView, self._ask(self._query.ListAgents, request).agents)

    def incidents(
        self, service: str = "", *, kind: Kind | None = None, since_unix_ns: int = 0, limit: int = 0
    ) -> tuple[Incident, ...]:
        """Incidents, the latest seen first; ``limit`` 0 takes the collector's default."""
        request = query_pb2.ListIncidentsRequest(
            service=service, kind=_kind_number(kind), since_unix_ns=since_unix_ns, limit=limit
        )
        return _values(Incident, self._ask(self._query.ListIncidents, request).incidents)

    def incident(self, incident_id: str, *, occurrences: int = 0) -> IncidentDetail:
        """One incident by its id or a prefix that fits no other, with its newest occurrences and their evidence."""
        request = query_pb2.GetIncidentRequest(incident_id=incident_id, occurrences=occurrences)
        return _value(IncidentDetail, self._ask(self._query.GetIncident, request).incident)

    def captures(self, service: str = "", *, since_unix_ns: int = 0, limit: int = 0) -> tuple[CaptureDetail, ...]:
        """Captures, the newest first, without their summaries."""
        request = query_pb2.ListCapturesRequest(service=service, since_unix_ns=since_unix_ns, limit=limit)
        return _values(CaptureDetail, self._ask(self._query.ListCaptures, request).captures)

    def capture(self, capture_id: str) -> CaptureDetail:
        """One capture by its id or a prefix that fits no other."""
        request = query_pb2.GetCaptureRequest(capture_id=capture_id)
        return _value(CaptureDetail, self._ask(self._query.GetCapture, request).capture)

    def spikes(
        self, service: str = "", *, since_unix_ns: int = 0, limit: int = 0, unexplained_only: bool = False
    ) -> tuple[SpikeDetail, ...]:
        """Spikes, the newest first, without their evidence."""
        request = query_pb2.ListSpikesRequest(
            service=service, since_unix_ns=since_unix_ns, limit=limit, unexplained_only=unexplained_only
        )
        return _values(SpikeDetail, self._ask(self._query.ListSpikes, request).spikes)

    def spike(self, spike_id: str) -> SpikeDetail:
        """One spike by its id or a prefix that fits no other, with its evidence."""
        request = query_pb2.GetSpikeRequest(spike_id=spike_id)
        return _value(SpikeDetail, self._ask(self._query.GetSpike, request).spike)

    def trace(self, capture_id: str, path: str | os.PathLike[str], *, wait_s: float = 10.0) -> int:
        """Write the raw trace of a capture, gzip-compressed JSON, to ``path``; return its size in bytes.

        ``wait_s`` is how long to wait for a trace that is still on its way. A file is left only when it is whole.
        """
        request = query_pb2.GetTraceRequest(capture_id=capture_id, wait_seconds=wait_s)
        target = Path(path)
        part = target.with_name(target.name + ".part")
        size = 0
        try:
            with part.open("wb") as out:
                for piece in self._stream(self._query.GetTrace, request, timeout_s=wait_s + _ORDER_GRACE_S):
                    size += out.write(piece.data)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return size

    def order(
        self,
        service: str = "",
        *,
        host: str = "",
        pid: int = 0,
        agent_id: str = "",
        requests: int = 0,
        seconds: float = 0.0,
        deep: bool = False,
        timeout_s: float = 30.0,
    ) -> Generator[Progress, None, None]:
        """Order a window from one agent that matches, and report how far it is; hanging up loses the reports alone.

        The window ends after ``requests`` whole requests or ``seconds``, whichever comes first; 0 is unset.
        """
        order = CaptureOrder(capture_id="", reason="demand", seconds=seconds, requests=requests, deep=deep)
        request = trigger_pb2.TriggerRequest(
            service=service, host=host, pid=pid, agent_id=agent_id, order=to_message(order), timeout_seconds=timeout_s
        )
        for event in self._stream(self._trigger.Trigger, request, timeout_s=timeout_s + _ORDER_GRACE_S):
            known = trigger_pb2.TriggerState.DESCRIPTOR.values_by_number.get(event.state)
            state = known.name.removeprefix("TRIGGER_STATE_").lower() if known is not None else "unknown"
            agent = _value(Resource, event.agent) if event.HasField("agent") else None
            yield Progress(state, event.detail, event.capture_id, agent)

    def profile(
        self,
        service: str = "",
        *,
        host: str = "",
        pid: int = 0,
        agent_id: str = "",
        requests: int = 0,
        seconds: float = 0.0,
        deep: bool = False,
        timeout_s: float = 30.0,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> CaptureDetail:
        """Order a window as `order` does, wait until it is stored, and return it with what was found."""
        last = Progress("")
        with contextlib.closing(
            self.order(
                service,
                host=host,
                pid=pid,
                agent_id=agent_id,
                requests=requests,
                seconds=seconds,
                deep=deep,
                timeout_s=timeout_s,
            )
        ) as events:
            for last in events:
                if on_progress is not None:
                    on_progress(last)
        if last.state != "stored":
            raise CollectorError(last.detail or f"the window was {last.state or 'not ordered'}; try again")
        return self.capture(last.capture_id)

    def watch_incidents(
        self, service: str = "", *, kind: Kind | None = None, since_unix_ns: int = 0
    ) -> Iterator[Sighting]:
        """Sightings as they are stored, until the iterator or the client is closed.

        With ``since_unix_ns``, incidents seen since then come first, once each.
        """
        request = query_pb2.WatchIncidentsRequest(service=service, kind=_kind_number(kind), since_unix_ns=since_unix_ns)
        for seen in self._stream(self._query.WatchIncidents, request, timeout_s=None):
            occurrence = _value(Occurrence, seen.occurrence) if seen.HasField("occurrence") else None
            yield Sighting(_value(Incident, seen.incident), occurrence)

    def _ask(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._explained(error) from None

    def _stream(self, method: Any, request: Any, *, timeout_s: float | None) -> Iterator[Any]:
        call = method(request, timeout=timeout_s, metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            raise self._explained(error) from None
        finally:
            call.cancel()

    def _explained(self, error: Any) -> CollectorError:
        code, detail = error.code(), error.details()
        if code is grpc.StatusCode.UNAVAILABLE:
            if problem := addressing(self.address, detail or ""):
                return CollectorError(problem)
            return CollectorError(f"no collector at {self.address}; start one with `midwatch collector`")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return CollectorError(
                f"what answers at {self.address} is no collector of this version; see `midwatch --version`"
            )
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return CollectorError(f"the collector at {self.address} did not answer in time; see its log, or try again")
        if code is grpc.StatusCode.NOT_FOUND:
            return NotFoundError(detail)
        return CollectorError(detail or f"the collector at {self.address} failed ({code.name.lower()}); see its log")


def addressing(address: str, detail: str) -> str:
    """Return what is wrong with the address of a collector, by what gRPC says of a failed call; "" where nothing is."""
    host, _, port = address.rpartition(":")
    remedy = "give host:port with --collector or MIDWATCH_COLLECTOR, such as 127.0.0.1:7171"
    if not host:
        return f"{address!r} is no address of a collector: {remedy}"
    if not _UNRESOLVED.search(detail):
        return ""
    if not port.isdigit() or not _HOST.fullmatch(host):
        return f"{address!r} is no address of a collector: {remedy}"
    return f"the host name {host!r} does not resolve: check its spelling and the DNS of this machine, or {remedy}"


def _kind_number(kind: Kind | None) -> Any:
    return finding_pb2.Kind.Value(f"KIND_{kind.name}") if kind else finding_pb2.KIND_UNSPECIFIED


def _value(cls: type[T], message: Any) -> T:
    value = from_message(message)
    if not isinstance(value, cls):
        raise TypeError(f"{type(message).__name__} is no {cls.__name__}")
    return value


def _values(cls: type[T], messages: Any) -> tuple[T, ...]:
    return tuple(_value(cls, message) for message in messages)
