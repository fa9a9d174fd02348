"""Who is attached: the agents that hold a command stream now. Lives on the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from midwatch.model.resource import Resource
from midwatch.model.status import AgentStatus, AgentView
from midwatch_proto.v1 import control_pb2

from midwatch_server.errors import NotFoundError

LISTED = 8


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Something to say to an agent, and whom to tell once it is on the stream."""

    message: control_pb2.CollectorMessage
    on_sent: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The end of a stream: ``replaced``, ``stopping`` or ``left`` (the agent hung up)."""

    why: str


@dataclass(eq=False, slots=True)
class Attached:
    """One agent on its stream."""

    resource: Resource
    status: AgentStatus | None
    last_seen_unix_ns: int = 0
    outbox: asyncio.Queue[Outgoing | End] = field(default_factory=asyncio.Queue)

    @property
    def name(self) -> str:
        """The process as people know it."""
        return f"{self.resource.service} ({self.resource.host}, process {self.resource.pid})"

    def heard(self, status: AgentStatus | None) -> None:
        """Note a sign of life."""
        self.status = status or self.status
        self.last_seen_unix_ns = time.time_ns()

    def view(self) -> AgentView:
        """What is known of it."""
        return AgentView(self.resource, self.status, connected=True, last_seen_unix_ns=self.last_seen_unix_ns)

    def busyness(self) -> tuple[int, int, str]:
        """What `Registry.choose` ranks by: requests in flight, then requests so far."""
        status = self.status
        return (status.in_flight, status.requests, self.resource.agent_id) if status else (-1, -1, "")


class Registry:
    """The attached agents by id."""

    def __init__(self) -> None:
        self._agents: dict[str, Attached] = {}

    def attach(self, resource: Resource, status: AgentStatus | None) -> Attached:
        """Take an agent in. An earlier stream of the same agent ends; what it did not deliver moves to the new one."""
        agent = Attached(resource, status)
        agent.heard(None)
        if (old := self._agents.get(resource.agent_id)) is not None:
            while not old.outbox.empty():
                agent.outbox.put_nowait(old.outbox.get_nowait())
            old.outbox.put_nowait(End("replaced"))
        self._agents[resource.agent_id] = agent
        return agent

    def detach(self, agent: Attached) -> bool:
        """Let an agent go. Returns False where a newer stream has taken its place."""
        if self._agents.get(agent.resource.agent_id) is not agent:
            return False
        del self._agents[agent.resource.agent_id]
        return True

    def views(self, service: str = "") -> list[AgentView]:
        """What is known of the attached agents."""
        return [agent.view() for agent in self._agents.values() if service in ("", agent.resource.service)]

    def choose(self, *, service: str, host: str, pid: int, agent_id: str) -> Attached:
        """Return the busiest agent that fits; empty and 0 fit all. Raises `NotFoundError`."""
        fitting = [
            agent
            for agent in self._agents.values()
            if service in ("", agent.resource.service)
            and host in ("", agent.resource.host)
            and pid in (0, agent.resource.pid)
            and agent_id in ("", agent.resource.agent_id)
        ]
        if fitting:
            return max(fitting, key=Attached.busyness)
        wanted = [f"service {service}"] * bool(service) + [f"host {host}"] * bool(host)
        wanted += [f"process {pid}"] * bool(pid) + [f"id {agent_id}"] * bool(agent_id)
        raise NotFoundError(f"No agent of {', '.join(wanted) or 'any service'} is connected. {self._connected()}")

    def close(self) -> None:
        """End all streams."""
        for agent in self._agents.values():
            agent.outbox.put_nowait(End("stopping"))

    def _connected(self) -> str:
        names = sorted(agent.name for agent in self._agents.values())
        if not names:
            return "None is connected at all: start a service with MIDWATCH_COLLECTOR set to this collector's address."
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        return f"Connected: {', '.join(names[:LISTED])}{more}."
