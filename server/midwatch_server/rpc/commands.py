"""Orders under way, and who waits for them. Lives on the event loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from midwatch_proto.v1 import control_pb2, trigger_pb2

from midwatch_server.store import Stored

_OF_UPDATE = {
    control_pb2.COMMAND_STATE_OPEN: trigger_pb2.TRIGGER_STATE_OPEN,
    control_pb2.COMMAND_STATE_DONE: trigger_pb2.TRIGGER_STATE_DONE,
    control_pb2.COMMAND_STATE_REFUSED: trigger_pb2.TRIGGER_STATE_REFUSED,
    control_pb2.COMMAND_STATE_FAILED: trigger_pb2.TRIGGER_STATE_FAILED,
}
_OF_CAPTURE = {
    "refused": trigger_pb2.TRIGGER_STATE_REFUSED,
    "failed": trigger_pb2.TRIGGER_STATE_FAILED,
    "empty": trigger_pb2.TRIGGER_STATE_FAILED,
}
FINAL = frozenset(
    {trigger_pb2.TRIGGER_STATE_REFUSED, trigger_pb2.TRIGGER_STATE_FAILED, trigger_pb2.TRIGGER_STATE_STORED}
)


@dataclass(frozen=True, slots=True)
class News:
    """Something happened to an order. ``state`` is one of the wire's; see `GONE` and `STOPPING`."""

    state: int
    detail: str = ""


GONE = News(-1)
"""The agent's stream ended. It may come back, and the capture may still arrive."""
STOPPING = News(-2)
"""The collector is stopping."""


@dataclass(eq=False, slots=True)
class Command:
    """One order and its news."""

    command_id: str
    capture_id: str
    agent_id: str
    news: asyncio.Queue[News] = field(default_factory=asyncio.Queue)
    furthest: int = trigger_pb2.TRIGGER_STATE_UNSPECIFIED
    """The furthest state that was told."""

    def tell(self, news: News) -> None:
        """Queue news of a state further than those before; an agent on a new stream says its latest ones again."""
        if news.state > self.furthest:
            self.furthest = news.state
            self.news.put_nowait(news)

    def sent(self) -> None:
        """The order is on the stream."""
        self.tell(News(trigger_pb2.TRIGGER_STATE_SENT))


class Commands:
    """The orders that somebody waits for."""

    def __init__(self) -> None:
        self._open: dict[str, Command] = {}

    def open(self, command: Command) -> None:
        """Follow an order."""
        self._open[command.command_id] = command

    def forget(self, command: Command) -> None:
        """Nobody waits for it any more."""
        self._open.pop(command.command_id, None)

    def update(self, update: control_pb2.CommandUpdate) -> None:
        """Pass on what an agent says; orders that nobody waits for are passed over."""
        command = self._open.get(update.command_id)
        state = _OF_UPDATE.get(update.state)
        if command is not None and state is not None:
            command.tell(News(state, update.detail))

    def stored(self, stored: Stored) -> None:
        """Pass on that captures are committed."""
        for capture in stored.captures:
            for command in self._open.values():
                if capture.command_id == command.command_id or capture.capture_id == command.capture_id:
                    state = _OF_CAPTURE.get(capture.state, trigger_pb2.TRIGGER_STATE_STORED)
                    command.tell(News(state, capture.detail))

    def gone(self, agent_id: str) -> None:
        """Pass on that an agent's stream ended."""
        for command in self._open.values():
            if command.agent_id == agent_id:
                command.news.put_nowait(GONE)

    def close(self) -> None:
        """End all waiting."""
        for command in self._open.values():
            command.news.put_nowait(STOPPING)
