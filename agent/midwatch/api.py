"""The public functions. All of them are harmless before `start`, after `stop`, and where Midwatch is off."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from midwatch.config import load
from midwatch.guard import guard
from midwatch.requests.marks import RequestMark, decorate
from midwatch.requests.steps import Steps
from midwatch.requests.tracker import installed

if TYPE_CHECKING:
    from midwatch.agent import Agent
    from midwatch.model.status import AgentStatus

F = TypeVar("F", bound=Callable[..., Any])

_lock = threading.RLock()
_agent: Agent | None = None
_off = "not started: call midwatch.start() or import midwatch.auto"
_steps = Steps()

_MAX_NOTES = 16
_MAX_NOTE = 64


def start(
    *,
    service: str | None = None,
    collector: str | None = None,
    token: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    engine: str | None = None,
    **settings: object,
) -> None:
    """Start to watch this process. Never raises; a second call does nothing.

    Args:
        service: name of the service; else ``MIDWATCH_SERVICE``, ``OTEL_SERVICE_NAME`` or the name of the script.
        collector: ``host:port`` of the collector's gRPC address.
        token: what the collector asks for.
        service_version: version of the service.
        environment: such as ``production``.
        engine: ``auto``, ``direct``, ``capped`` or ``off``.
        settings: any other field of `midwatch.config.Settings`. A value that cannot be used is ignored, logged once,
            and named in `status`.
    """
    arguments = {
        "service": service,
        "collector": collector,
        "token": token,
        "service_version": service_version,
        "environment": environment,
        "engine": engine,
        **settings,
    }
    guard.call("api.start", _start, arguments, default=None)


def stop() -> None:
    """Stop to watch. What was seen is sent, or put on disk, within three seconds.

    It takes no longer where the companion or the collector hangs: the companion then goes on alone with what it was
    given, and what it loses is counted. A window that is open is ended first, and not kept; where Kineto takes its
    time for that, it is so much more, three seconds at most.
    """
    global _agent, _off
    with _lock:
        agent, _agent = _agent, None
        if agent is not None:
            _off = "stopped"
            guard.call("api.stop", agent.stop, default=None)


@overload
def request(route: str) -> RequestMark: ...
@overload
def request(route: F) -> F: ...
def request(route: str | F) -> RequestMark | F:
    """Mark a request, by ``with``, by ``async with``, or as a decorator with or without a route.

    The route is a template, never a value: at most 256 of them are kept apart. A request inside of another one is
    part of that one.
    """
    if callable(route):
        return decorate(route, getattr(route, "__qualname__", type(route).__name__))
    return RequestMark(str(route))


def note(**facts: object) -> None:
    """Note facts on the current request, such as ``batch=32``. They leave the process, so name sizes, not contents.

    Numbers and short texts are kept; of anything else, a tensor for one, only the type: to print it could wait for a
    device, and would let its contents out.
    """
    guard.call("api.note", _note, facts, default=None)


def step() -> None:
    """Mark a training step: from one call to the next on a thread is one request of the route ``step``.

    Call it in the loop, once a turn. A step is told when the next one follows; one that is ten seconds overdue by then
    is taken for a break (an evaluation, a checkpoint, the end) and not told.
    """
    guard.call("api.step", _steps.step, default=None)


def capture(*, seconds: float = 0.0, requests: int = 0, deep: bool = False) -> str:
    """Order a profiler window now, and return at once.

    Args:
        seconds: how long, 0.06 to 10; 0 for the default of 0.3, or for as long as ``requests`` take.
        requests: end after so many whole requests.
        deep: operators and shapes of all threads too, which costs the service more.

    Returns:
        The id that the capture will have, for ``midwatch show``; "" where Midwatch is off.
    """
    return guard.call("api.capture", _capture, seconds, requests, deep, default="")


def status() -> AgentStatus:
    """Return what the agent says about itself: what is on, what is off and why."""
    from midwatch.model.status import AgentStatus

    agent = _agent
    off = AgentStatus(unix_ns=0, state="off", detail=_off)
    return off if agent is None else guard.call("api.status", agent.status, default=off)


def _start(arguments: dict[str, object]) -> None:
    global _agent, _off
    with _lock:
        if _agent is not None:
            return
        loaded = load(arguments)
        if not loaded.settings.enabled:
            _off = "switched off (MIDWATCH_ENABLED=0)"
            return
        # Only now: a process that merely reads traces, or in which Midwatch is off, does not load the agent.
        from midwatch.agent import Agent
        from midwatch.capture.environment import prepare_environment

        prepare_environment()
        agent = Agent(loaded)
        try:
            agent.start()
        except Exception as error:
            _off = f"could not be started ({type(error).__name__}: {error}); the log has more"
            raise
        _agent = agent


def _capture(seconds: float, requests: int, deep: object) -> str:
    from midwatch.model.order import CaptureOrder

    agent = _agent
    order = CaptureOrder(os.urandom(8).hex(), "demand", float(seconds), int(requests), bool(deep))
    return order.capture_id if agent is not None and agent.order(order) else ""


def _note(facts: dict[str, object]) -> None:
    tracker = installed()
    mark = tracker.current() if tracker is not None else None
    if mark is None:
        return
    notes = mark.details.notes
    for name, value in facts.items():
        if name in notes or len(notes) < _MAX_NOTES:
            plain = isinstance(value, (str, int, float))
            notes[name[:_MAX_NOTE]] = str(value)[:_MAX_NOTE] if plain else f"<{type(value).__name__}>"


def _after_fork() -> None:
    """In a forked child: a thread of the parent's may have held the lock."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
