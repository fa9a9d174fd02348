"""Answers questions about what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, BinaryIO, TypeVar

from midwatch.model.finding import Kind
from midwatch.model.incident import Incident, Occurrence
from midwatch.model.status import AgentView
from midwatch.wire import to_message
from midwatch_proto.v1 import finding_pb2, query_pb2, query_pb2_grpc

from midwatch_server.errors import BadRequestError, NotFoundError
from midwatch_server.rpc.errors import answered
from midwatch_server.rpc.hub import Hub
from midwatch_server.rpc.registry import Registry
from midwatch_server.store import Store, Stored, read

T = TypeVar("T")
MOST = 1_000
MAX_TRACE_WAIT_S = 60.0
PIECE_BYTES = 1024 * 1024


class QueryService(query_pb2_grpc.QueryServiceServicer):
    """Reads run in threads, each on a connection of its own. Methods have the contract's names; streams are written."""

    def __init__(self, store: Store, registry: Registry, hub: Hub, threads: Executor) -> None:
        self._store = store
        self._registry = registry
        self._hub = hub
        self._threads = threads

    async def ListAgents(self, request: query_pb2.ListAgentsRequest, context: Any) -> Any:  # noqa: N802
        """Agents in the store, with what their streams know better."""
        async with answered(context):
            limit = _limit(request.limit, 200)
            found = {view.resource.agent_id: view for view in self._registry.views(request.service)}
            if not request.connected_only:
                for view in await self._ask(read.agents, service=request.service, limit=limit):
                    found.setdefault(view.resource.agent_id, view)
            views: list[AgentView] = sorted(found.values(), key=lambda view: view.last_seen_unix_ns, reverse=True)
            return query_pb2.ListAgentsResponse(agents=[to_message(view) for view in views[:limit]])

    async def ListIncidents(self, request: query_pb2.ListIncidentsRequest, context: Any) -> Any:  # noqa: N802
        """Incidents, the latest seen first."""
        async with answered(context):
            found = await self._ask(
                read.incidents,
                service=request.service,
                kind=_kind(request.kind),
                since_unix_ns=request.since_unix_ns,
                limit=_limit(request.limit, 100),
            )
            return query_pb2.ListIncidentsResponse(incidents=[to_message(one) for one in found])

    async def GetIncident(self, request: query_pb2.GetIncidentRequest, context: Any) -> Any:  # noqa: N802
        """One incident with its evidence."""
        async with answered(context):
            limit = _limit(request.occurrences, 20)
            found = await self._ask(read.incident, request.incident_id, limit=limit)
            return query_pb2.GetIncidentResponse(incident=to_message(found))

    async def ListCaptures(self, request: query_pb2.ListCapturesRequest, context: Any) -> Any:  # noqa: N802
        """Captures, the newest first."""
        async with answered(context):
            limit = _limit(request.limit, 100)
            found = await self._ask(
                read.captures, service=request.service, since_unix_ns=request.since_unix_ns, limit=limit
            )
            return query_pb2.ListCapturesResponse(captures=[to_message(one) for one in found])

    async def GetCapture(self, request: query_pb2.GetCaptureRequest, context: Any) -> Any:  # noqa: N802
        """One capture with its summary."""
        async with answered(context):
            found = await self._ask(read.capture, request.capture_id)
            return query_pb2.GetCaptureResponse(capture=to_message(found))

    async def ListSpikes(self, request: query_pb2.ListSpikesRequest, context: Any) -> Any:  # noqa: N802
        """Spikes, the newest first."""
        async with answered(context):
            found = await self._ask(
                read.spikes,
                service=request.service,
                since_unix_ns=request.since_unix_ns,
                limit=_limit(request.limit, 100),
                unexplained_only=request.unexplained_only,
            )
            return query_pb2.ListSpikesResponse(spikes=[to_message(one) for one in found])

    async def GetSpike(self, request: query_pb2.GetSpikeRequest, context: Any) -> Any:  # noqa: N802
        """One spike with its evidence."""
        async with answered(context):
            found = await self._ask(read.spike, request.spike_id)
            return query_pb2.GetSpikeResponse(spike=to_message(found))

    async def GetTrace(  # type: ignore[override]  # noqa: N802
        self, request: query_pb2.GetTraceRequest, context: Any
    ) -> None:
        """The file, piece by piece."""
        async with answered(context):
            capture_id = await self._find_trace(request.capture_id, request.wait_seconds)
            path = self._store.traces.path(capture_id)
            total = path.stat().st_size
            file: BinaryIO = await self._in_thread(path.open, "rb")
            try:
                while data := await self._in_thread(file.read, PIECE_BYTES):
                    await context.write(query_pb2.GetTraceResponse(data=data, total_bytes=total))
            finally:
                file.close()

    async def WatchIncidents(  # type: ignore[override]  # noqa: N802
        self, request: query_pb2.WatchIncidentsRequest, context: Any
    ) -> None:
        """Sightings as they are committed."""
        async with answered(context):
            kind = _kind(request.kind)

            def fits(incident: Incident) -> bool:
                return request.service in ("", incident.service) and kind in ("", incident.kind.value)

            with self._hub.subscribe(lambda stored: any(fits(one) for one, _ in stored.sightings)) as news:
                sent = set()
                for incident, occurrence in await self._recent(request.service, kind, request.since_unix_ns):
                    sent.add(occurrence.occurrence_id)
                    await context.write(_sighting(incident, occurrence))
                while True:
                    for incident, occurrence in (await news.next()).sightings:
                        if fits(incident) and occurrence.occurrence_id not in sent:
                            await context.write(_sighting(incident, occurrence))

    async def _recent(self, service: str, kind: str, since_unix_ns: int) -> list[tuple[Incident, Occurrence]]:
        """Incidents since then with their newest occurrence, the oldest first; none where no time is given."""
        if not since_unix_ns:
            return []
        found = await self._ask(read.incidents, service=service, kind=kind, since_unix_ns=since_unix_ns, limit=MOST)
        newest = [await self._ask(read.newest_occurrences, one.incident_id, 1) for one in found]
        return [(incident, seen[0]) for incident, seen in zip(found, newest, strict=True) if seen][::-1]

    async def _find_trace(self, prefix: str, wait_s: float) -> str:
        """The capture whose raw trace is asked for; waits for one on its way. Raises `NotFoundError`."""

        def brings_it(stored: Stored) -> bool:
            return any(one.startswith(prefix) for one in stored.traces)

        with self._hub.subscribe(brings_it) as news:
            found = await self._ask(read.trace_of, prefix)
            if found is None and wait_s > 0:
                try:
                    await asyncio.wait_for(news.next(), min(wait_s, MAX_TRACE_WAIT_S))
                except asyncio.TimeoutError:
                    found = None
                else:
                    found = await self._ask(read.trace_of, prefix)
        if found is None:
            capture = (await self._ask(read.capture, prefix)).capture
            raise NotFoundError(
                f"The raw trace of capture {capture.capture_id} is not here: the service keeps raw traces to itself, "
                "or it is still on its way."
            )
        return found

    async def _ask(self, question: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return await self._in_thread(partial(self._store.ask, question, *args, **kwargs))

    async def _in_thread(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)


def _limit(asked: int, default: int) -> int:
    if asked < 0:
        raise BadRequestError("A limit is not negative.")
    return min(asked or default, MOST)


def _kind(number: int) -> str:
    """The name of a kind, "" for any. Raises `BadRequestError` for one of a newer version."""
    if number == finding_pb2.KIND_UNSPECIFIED:
        return ""
    try:
        return Kind[finding_pb2.Kind.Name(number).removeprefix("KIND_")].value  # type: ignore[arg-type]
    except ValueError as error:
        raise BadRequestError("This collector does not know that kind; it is older than the one who asks.") from error


def _sighting(incident: Incident, occurrence: Occurrence) -> query_pb2.WatchIncidentsResponse:
    return query_pb2.WatchIncidentsResponse(incident=to_message(incident), occurrence=to_message(occurrence))
