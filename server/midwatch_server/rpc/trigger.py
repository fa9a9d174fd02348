"""Orders a window from an agent and reports until it is stored."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from midwatch.model.resource import Resource
from midwatch.wire import to_message
from midwatch_proto.v1 import capture_pb2, control_pb2, trigger_pb2, trigger_pb2_grpc

from midwatch_server.errors import BadRequestError, RecordRejectedError, StoreUnavailableError
from midwatch_server.rpc.commands import FINAL, GONE, STOPPING, Command, Commands, News
from midwatch_server.rpc.errors import answered
from midwatch_server.rpc.registry import Attached, Outgoing, Registry
from midwatch_server.store.traces import checked_name

DEFAULT_TIMEOUT_S = 60.0
MAX_TIMEOUT_S = 600.0
MAX_WINDOW_S = 60.0
DEFAULT_REQUESTS = 20
GONE_S = 15.0
"""How long an agent whose stream ended may take to come back, or its capture to arrive."""


class TriggerService(trigger_pb2_grpc.TriggerServiceServicer):
    """Windows on demand."""

    def __init__(self, registry: Registry, commands: Commands) -> None:
        self._registry = registry
        self._commands = commands

    async def Trigger(  # type: ignore[override]  # noqa: N802  (the contract's name; it writes, rather than yields)
        self, request: trigger_pb2.TriggerRequest, context: Any
    ) -> None:
        """Choose an agent, send it the order, and pass on what becomes of it."""
        async with answered(context):
            timeout_s = _timeout_s(request)
            order = _order(request.order)
            agent = self._registry.choose(
                service=request.service, host=request.host, pid=request.pid, agent_id=request.agent_id
            )
            command = Command(order.command_id, order.capture_id, agent.resource.agent_id)
            self._commands.open(command)
            try:
                reporter = _Reporter(context, command, agent.resource)
                await reporter.report(News(trigger_pb2.TRIGGER_STATE_QUEUED))
                _send(agent, order, command)
                await reporter.follow(timeout_s, agent.name)
            finally:
                self._commands.forget(command)


class _Reporter:
    """Writes the events of one trigger."""

    def __init__(self, context: Any, command: Command, agent: Resource) -> None:
        self._context = context
        self._command = command
        self._agent = to_message(agent)

    async def report(self, news: News) -> None:
        """Write one event."""
        event = trigger_pb2.TriggerEvent(detail=news.detail, capture_id=self._command.capture_id, agent=self._agent)
        event.state = news.state  # type: ignore[assignment]
        await self._context.write(event)

    async def follow(self, timeout_s: float, name: str) -> None:
        """Report until the end, or until it takes too long."""
        until_s = time.monotonic() + timeout_s
        late = f"{name} has stored no capture within {timeout_s:g} s; it may still come, see `midwatch agents`."
        while True:
            try:
                news = await asyncio.wait_for(self._command.news.get(), until_s - time.monotonic())
            except asyncio.TimeoutError:
                news = News(trigger_pb2.TRIGGER_STATE_FAILED, late)
            if news is STOPPING:
                raise StoreUnavailableError("The collector is stopping; order the window again later.")
            if news is GONE:
                until_s = min(until_s, time.monotonic() + GONE_S)
                late = f"{name} went away and did not come back with the capture."
                continue
            await self.report(news)
            if news.state in FINAL:
                return


def _send(agent: Attached, order: capture_pb2.CaptureOrder, command: Command) -> None:
    message = control_pb2.CollectorMessage(order=control_pb2.Order(command_id=order.command_id, order=order))
    agent.outbox.put_nowait(Outgoing(message, command.sent))


def _order(asked: capture_pb2.CaptureOrder) -> capture_pb2.CaptureOrder:
    """The order as it is sent. Raises `BadRequestError` for one that makes no sense."""
    if not 0 <= asked.seconds <= MAX_WINDOW_S:
        raise BadRequestError(f"A window lasts at most {MAX_WINDOW_S:.0f} seconds.")
    if not 0 <= asked.requests <= 100_000:
        raise BadRequestError("A window sees at most 100000 requests.")
    order = capture_pb2.CaptureOrder()
    order.CopyFrom(asked)
    order.command_id = uuid.uuid4().hex
    order.capture_id = order.capture_id or uuid.uuid4().hex[:16]
    order.reason = order.reason or "demand"
    if not order.seconds and not order.requests:
        order.requests = DEFAULT_REQUESTS
    try:
        checked_name(order.capture_id, "capture")
    except RecordRejectedError as error:
        raise BadRequestError(f"This order cannot be sent: {error}.") from error
    return order


def _timeout_s(request: trigger_pb2.TriggerRequest) -> float:
    if not 0 <= request.timeout_seconds <= MAX_TIMEOUT_S:
        raise BadRequestError(f"A trigger waits at most {MAX_TIMEOUT_S:.0f} seconds.")
    return request.timeout_seconds or DEFAULT_TIMEOUT_S + request.order.seconds
