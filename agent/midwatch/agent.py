"""The agent as the service meets it: marks, units and import hooks at once, everything else on a thread behind."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from midwatch import forks
from midwatch.clock import Clock, SystemClock
from midwatch.config import Loaded
from midwatch.drops import drops
from midwatch.guard import guard
from midwatch.integrations.all import Integrations
from midwatch.integrations.imports import ImportHooks
from midwatch.lifecycle import Stack, Worker
from midwatch.requests.roots import Roots
from midwatch.requests.tracker import Tracker, install
from midwatch.requests.units import Units

if TYPE_CHECKING:
    from midwatch.backroom import Backroom
    from midwatch.model.order import CaptureOrder
    from midwatch.model.status import AgentStatus, Part

FORKED = (
    "forked: this process is a child of the one that is watched; it serves, and is not watched itself, "
    "unless it calls midwatch.stop() and midwatch.start()"
)
LEFT_BEHIND = "it belongs to the process that this one was forked from, and does not run here"
_SETTLE_S = 0.05
_MAX_WAITING = 4
_STOP_S = 8.0
"""The end of a window, the flush and the end of the companion at their slowest."""


class Agent:
    """One per process."""

    def __init__(self, loaded: Loaded, clock: Clock | None = None) -> None:
        self._loaded = loaded
        self._settings = loaded.settings
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._stack = Stack()
        self._state, self._detail = "off", "not started"
        self._tracker = Tracker(self._clock)
        self._units = Units(self._clock, self._tracker)
        self._roots = Roots(self._clock, self._units)
        self._hooks = ImportHooks()
        self._integrations = Integrations(self._hooks, self._settings.integrations_off)
        self._worker = Worker("midwatch-agent", self._work)
        self._backroom: Backroom | None = None
        self._waiting: deque[CaptureOrder] = deque()
        self._forked = False

    def start(self) -> None:
        """Start all parts; does nothing where they run, or this is a forked child."""
        with self._lock:
            if self._state == "on" or self._forked:
                return
            self._tracker.off = False
            try:
                self._start()
            except BaseException:
                self._stack.stop()
                self._tracker.off = True
                raise
            self._state, self._detail = "on", ""

    def stop(self) -> None:
        """Stop all parts, the latest first; what was seen goes out within three seconds after the end of a window."""
        with self._lock:
            if self._state != "on":
                return
            self._state, self._detail = "off", "stopped"
            atexit.unregister(self.stop)
            self._stack.stop()
            # Last, so that what ended until now was still taken in. Hooks live on in copies of a module, for one.
            self._tracker.off = True

    def order(self, order: CaptureOrder) -> bool:
        """Order a window; one that comes while the agent is starting waits for it. Return whether it was taken."""
        if self._state != "on":
            return False
        if len(self._waiting) >= _MAX_WAITING:
            drops.drop("order_before_start")
            return False
        self._waiting.append(order)
        self._pass_on_orders()
        return True

    def status(self, give_way: Callable[[], None] = lambda: None) -> AgentStatus:
        """Return what the agent says about itself. Never waits; ``give_way`` is for callers with time."""
        from midwatch.model.status import AgentStatus

        room = self._backroom
        parts = [self._units_part(), *self._integrations.status(), *(room.parts(give_way) if room is not None else ())]
        give_way()
        if self._forked:
            parts = [_left_behind(part) for part in parts]
        state, detail = self._state_now(room, parts)
        return AgentStatus(
            unix_ns=self._clock.unix_ns(),
            state=state,
            detail=detail,
            engine=room.engine if room is not None and not self._forked else "",
            in_flight=self._tracker.count(),
            parts=tuple(parts),
            drops=drops.counts(),
            guarded_errors=guard.counts(),
            **(room.figures() if room is not None else {}),
        )

    def _start(self) -> None:
        logger = logging.getLogger("midwatch")
        logger.setLevel(self._settings.log_level.upper())
        for problem in self._loaded.problems:
            logger.warning("midwatch: %s", problem)
        self._stack.on_stop("worker", self._stop_worker)
        self._worker.start()
        self._stack.on_stop("imports", self._hooks.stop)
        if self._settings.units:
            self._hooks.after("torch", lambda _module: self._roots.start())
            self._hooks.after("torch._dynamo", lambda _module: self._roots.dynamo_imported())
            self._stack.on_stop("units", self._roots.stop)
        self._stack.start("integrations", self._integrations)
        install(self._tracker)
        self._stack.on_stop("marks", lambda: install(None))
        atexit.register(self.stop)
        _watch_forks(self)

    def _state_now(self, room: Backroom | None, parts: list[Part]) -> tuple[str, str]:
        if self._state != "on":
            return self._state, self._detail
        wrong = [*self._loaded.problems]
        wrong += [f"{part.name} failed: {part.detail}" for part in parts if part.state == "failed"]
        if not self._worker.alive:
            wrong.append(f"the agent {'could not start' if room is None else 'has broken off'}; the log has the error.")
        if wrong:
            return "degraded", " ".join(wrong)
        if room is None:
            return "warming_up", "the agent is starting"
        return ("on", "") if room.warmed_up() else ("warming_up", "no route has left its warm-up yet")

    def _units_part(self) -> Part:
        from midwatch.model.status import Part

        return self._roots.status() if self._settings.units else Part("units", "off", "switched off (units=0)")

    def _work(self, stop: threading.Event) -> None:
        """The background thread."""
        # The import statement that started us is still on its way, and would have to share the GIL.
        if stop.wait(_SETTLE_S) and not self._waiting and not self._tracker.finished():
            return  # a script that was over at once: nothing to send, and nothing that its end should wait for
        try:
            self._work_behind(stop)
        except Exception:
            # Nobody takes in any more what is marked.
            self._tracker.off = True
            self._tracker.drain()
            self._units.drain()
            raise

    def _work_behind(self, stop: threading.Event) -> None:
        with forks.held_off():
            from midwatch.manners import few_collections
            from midwatch.watch.switching import eager_switching

            # A hundred milliseconds of Python, and a service that starts Midwatch late is serving already.
            with eager_switching(), few_collections():
                from midwatch.backroom import Backroom

        room = Backroom(
            self._settings,
            self._clock,
            tracker=self._tracker,
            units=self._units,
            roots=self._roots,
            hooks=self._hooks,
            status=self.status,
        )
        self._backroom = room
        self._pass_on_orders()
        room.run(stop)

    def _pass_on_orders(self) -> None:
        room = self._backroom
        while room is not None:
            try:
                order = self._waiting.popleft()
            except IndexError:  # all done, perhaps by another thread
                return
            room.order(order)

    def _stop_worker(self) -> None:
        if not self._worker.stop(timeout_s=_STOP_S, wake=self._tracker.on_overdue.set):
            drops.drop("stop_timeout")
            said = "midwatch: the agent did not end within %.0f s; what it has not handed over yet may be lost"
            logging.getLogger("midwatch").warning(said, _STOP_S)

    def forked(self) -> None:
        """In a forked child the threads are gone and the socket is the parent's: serve, and keep quiet."""
        self._forked = True
        self._lock = threading.RLock()
        self._tracker.after_fork()
        self._roots.after_fork()
        if self._state == "on":
            self._hooks.after_fork()
            self._state, self._detail = "off", FORKED
            atexit.unregister(self.stop)


def _left_behind(part: Part) -> Part:
    """Return what a part of the parent's is in a forked child, where none of them runs."""
    if (part.state == "unavailable" and part.name != "companion") or "forked" in part.detail:
        return part
    return replace(part, state="off", detail=LEFT_BEHIND)


_forking: weakref.WeakSet[Agent] = weakref.WeakSet()
_registered = threading.Event()


def _watch_forks(agent: Agent) -> None:
    """Have `Agent.forked` called in forked children. What is registered with the interpreter stays, so it is one."""
    _forking.add(agent)
    if not _registered.is_set():
        _registered.set()
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    guard.after_fork()
    drops.after_fork()
    for agent in list(_forking):
        guard.call("agent.forked", agent.forked, default=None)
