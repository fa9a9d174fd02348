"""Holds the agents' command streams: orders go down, signs of life and news of orders come up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from midwatch.model.resource import Resource
from midwatch.model.status import AgentStatus
from midwatch.wire import from_message
from midwatch_proto.v1 import control_pb2, control_pb2_grpc

from midwatch_server.errors import BadRequestError, FigureError, StoreUnavailableError
from midwatch_server.figures import Mended, checked
from midwatch_server.reasons import Reasons
from midwatch_server.rpc.commands import Commands
from midwatch_server.rpc.errors import answered, log
from midwatch_server.rpc.registry import Attached, End, Outgoing, Registry
from midwatch_server.store import Store, rows

HELLO_S = 10.0
_WORDS = {
    "replaced": (grpc.StatusCode.ABORTED, "This agent has attached again by another stream."),
    "stopping": (grpc.StatusCode.UNAVAILABLE, "The collector is stopping; attach again later."),
}


class ControlService(control_pb2_grpc.ControlServiceServicer):
    """One held stream for each agent."""

    def __init__(self, store: Store, registry: Registry, commands: Commands) -> None:
        self._store = store
        self._registry = registry
        self._commands = commands
        self._reasons = Reasons()

    async def Attach(  # type: ignore[override]  # noqa: N802  (the contract's name; it writes, rather than yields)
        self, request_iterator: AsyncIterator[control_pb2.AgentMessage], context: Any
    ) -> None:
        """Hold the stream until either side ends it."""
        async with answered(context):
            hello = await _hello(request_iterator)
            resource, told = _resource(hello.resource)
            status, fault = _status(hello)
            agent = self._registry.attach(resource, status)
            self._say(agent, told, fault)
            listener = asyncio.create_task(self._listen(agent, request_iterator))
            try:
                await self._note(agent)
                await context.write(_ping())
                end = await _talk(agent, context)
                if end.why == "left":
                    await listener  # which knows whether the agent hung up or said something that makes no sense
            finally:
                listener.cancel()
                if self._registry.detach(agent):
                    self._commands.gone(resource.agent_id)
            if end.why in _WORDS:
                await context.abort(*_WORDS[end.why])

    async def _listen(self, agent: Attached, messages: AsyncIterator[control_pb2.AgentMessage]) -> None:
        try:
            async for message in messages:
                kind = message.WhichOneof("message")
                if kind == "command_update":
                    self._commands.update(message.command_update)
                elif kind == "heartbeat":
                    status, fault = _status(message.heartbeat)
                    agent.heard(status)
                    self._say(agent, fault)
                    await self._note(agent)
                    agent.outbox.put_nowait(Outgoing(_ping()))
        finally:
            agent.outbox.put_nowait(End("left"))

    def _say(self, agent: Attached, *faults: str) -> None:
        for fault in filter(None, faults):
            self._reasons.note(f"agent {agent.resource.agent_id}, {agent.name}", fault)

    async def _note(self, agent: Attached) -> None:
        """Store that the agent lives. It is attached whether or not that can be stored now."""
        row = rows.agent_row(agent.resource, agent.status, agent.last_seen_unix_ns)
        try:
            await asyncio.wrap_future(self._store.put_agent(row))
        except StoreUnavailableError as error:
            log.warning("%s: %s", agent.name, error)


async def _hello(messages: AsyncIterator[control_pb2.AgentMessage]) -> control_pb2.AgentHello:
    """The first word. Raises `BadRequestError` where it is none, or does not come."""
    try:
        first = await asyncio.wait_for(_first(messages), HELLO_S)
    except asyncio.TimeoutError:
        raise BadRequestError(f"An agent says hello within {HELLO_S:.0f} seconds.") from None
    if first is None or first.WhichOneof("message") != "hello":
        raise BadRequestError("An agent says hello before anything else.")
    if not first.hello.resource.agent_id or not first.hello.resource.service:
        raise BadRequestError("A hello needs the agent's id and the name of its service.")
    return first.hello


def _resource(message: Any) -> tuple[Resource, str]:
    """The process, and what was left out of what it said of itself. Raises `BadRequestError` for lists without end."""
    try:
        left_out = _left_out("a hello", checked(message, "a hello"))
    except FigureError as error:
        raise BadRequestError(f"{error}.") from error
    resource: Resource = from_message(message)
    return resource, left_out


def _status(word: control_pb2.AgentHello | control_pb2.Heartbeat) -> tuple[AgentStatus | None, str]:
    """The status, where there is one that can be taken, and what is wrong with it.

    The stream is worth more than a status: orders come down on it, and the next status may be right.
    """
    if not word.HasField("status"):
        return None, ""
    try:
        left_out = _left_out("a status", checked(word.status, "a status", time.time_ns()))
    except FigureError as error:
        return None, f"a status was refused: {error}"
    status: AgentStatus = from_message(word.status)
    return status, left_out


def _left_out(what: str, mended: Mended) -> str:
    return "; ".join(f"of {what}: {caveat.text}" for caveat in mended.caveats())


async def _first(messages: AsyncIterator[control_pb2.AgentMessage]) -> control_pb2.AgentMessage | None:
    async for message in messages:
        return message
    return None


async def _talk(agent: Attached, context: Any) -> End:
    """Send what is to be sent until the stream ends."""
    while True:
        item = await agent.outbox.get()
        if isinstance(item, End):
            return item
        await context.write(item.message)
        if item.on_sent is not None:
            item.on_sent()


def _ping() -> control_pb2.CollectorMessage:
    return control_pb2.CollectorMessage(ping=control_pb2.Ping(unix_ns=time.time_ns()))
