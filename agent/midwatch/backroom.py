"""Everything that works behind the service's back: built and run on the agent's background thread.

The service's own thread only marks. What looks, judges, samples and sends is imported, put together and started here,
so that ``import midwatch.auto`` takes no longer than the marks need.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType

from midwatch import forks
from midwatch.capture.base import Engine
from midwatch.capture.budget import Budget
from midwatch.capture.controller import Controller
from midwatch.capture.routine import Routine
from midwatch.clock import Clock
from midwatch.config import Settings, state_dir
from midwatch.detect.windows import WindowLog
from midwatch.drops import drops
from midwatch.evidence import Evidence, Senses
from midwatch.guard import guard, logger
from midwatch.identity import identify, with_torch
from midwatch.intake import Intake
from midwatch.integrations.imports import ImportHooks
from midwatch.lifecycle import Stack, Startable
from midwatch.link.link import Link
from midwatch.manners import AtLeisure, few_collections
from midwatch.model.order import CaptureOrder
from midwatch.model.pieces import JsonText, in_pieces, list_in_pieces
from midwatch.model.status import AgentStatus, Part
from midwatch.requests.ledger import Ledger
from midwatch.requests.roots import Roots
from midwatch.requests.tracker import Tracker
from midwatch.requests.units import Units
from midwatch.sampler import Chore, Sampler
from midwatch.senses import SensorRack
from midwatch.sensors.allocator import AllocatorSensor
from midwatch.sensors.base import SELDOM_S
from midwatch.sensors.compile import CompileSensor
from midwatch.sensors.gc import GcSensor
from midwatch.sensors.nvml import NvmlSensor
from midwatch.sensors.process import ProcessSensor
from midwatch.watch.lockprobe import LockProbe
from midwatch.watch.sampler import WindowSampler
from midwatch.watch.stacks import Stacks
from midwatch.watch.switching import eager_switching
from midwatch.watch.watchdog import Watchdog

_STATUS_EVERY = 2
_CLOCK_SET_NS = 1_000_000_000
"""By how much the start of the process has moved where the wall clock was set: after a boot, the time comes late."""
FLUSH_S = 3.0
"""How long the end of the process waits for what was seen last to be sent or put on disk."""


class Backroom:
    """The parts that need no place in the service's own threads."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        tracker: Tracker,
        units: Units,
        roots: Roots,
        hooks: ImportHooks,
        status: Callable[[Callable[[], None]], AgentStatus],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._tracker = tracker
        self._roots = roots
        self._hooks = hooks
        self._status = status
        self._stack = Stack()
        self._give_way = AtLeisure(clock, tracker.on_overdue.is_set, tracker.wait_for_calm)
        self._began_ns = clock.perf_ns()
        self._resource = identify(settings, clock.to_unix(self._began_ns))
        self._reports = 0
        self._requests_before = 0
        stacks, probe = Stacks(), LockProbe()
        ledger, windows = Ledger(), WindowLog()
        self._link = Link(settings, self._resource, clock)
        self._watchdog = Watchdog(tracker, stacks, probe, clock, tick_ms=settings.watch_tick_ms, redact=settings.redact)
        gc = GcSensor(stacks, clock, tracker.add_gc)
        self._compiles = compiles = CompileSensor(stacks, clock, tracker.add_compile)
        allocator = AllocatorSensor()
        self._process = ProcessSensor(clock, lambda: allocator.take(clock.perf_ns()))
        self._nvml = NvmlSensor(clock, hz=settings.gpu_hz, urgent=tracker.overdue)
        self._rack = SensorRack((gc, compiles, allocator, self._process, self._nvml))
        self._evidence = Evidence(
            clock,
            tracker=tracker,
            ledger=ledger,
            watch=self._watchdog,
            stacks=WindowSampler(tracker, stacks, probe, clock, hz=settings.window_hz, redact=settings.redact),
            senses=Senses(gc.between, compiles.between, self._nvml.between, self._process.between),
            resource=lambda: self._resource,
            redact=settings.redact,
        )
        self._controller = Controller(
            clock,
            setting=settings.engine,
            budget=Budget(settings.windows_per_hour),
            link=self._link,
            tracker=tracker,
            windows=windows,
            beside=self._evidence,
            choose=self._choose_engine,
        )
        self._intake = self._evidence.intake = Intake(
            settings,
            clock,
            tracker=tracker,
            units=units,
            ledger=ledger,
            windows=windows,
            witnesses=self._evidence,
            send=self._link.send,
            offer_window=self._controller.offer,
        )
        self._routine = Routine(settings.routine)
        self._unstarted: list[tuple[str, Startable]] = [
            ("sensors", self._rack),
            ("watchdog", self._watchdog),
            ("controller", self._controller),
        ]

    def run(self, stop: threading.Event) -> None:
        """Start all parts, do the sampler's turns until ``stop`` is set, and stop all parts; on the calling thread."""
        # First and last: the profiler thread waits on the link's descriptor, and what the others saw last goes out.
        self._link.start()
        self._start_parts()
        self._hooks.after("torch", self._torch_imported)
        # At once, and not at the sensor's next look: the first compilation follows the import.
        self._hooks.after("torch._dynamo.callback", lambda _module: self._compiles.tick(self._clock.perf_ns()))
        try:
            self._sampler().run(stop)
        finally:
            before = dict(drops.counts())
            guard.call("backroom.digest", self._intake.digest, default=None)
            for sensor in self._rack.ticking():  # what they saw since they last looked would be gone
                sensor.tick(self._clock.perf_ns())
            self._stack.stop()
            guard.call("backroom.digest", self._intake.digest, default=None)
            guard.call("backroom.report", self._report, default=None)
            self._link.stop(FLUSH_S)
            _tell_losses(before)

    def _start_parts(self) -> None:
        """Start what does not run yet: for want of a thread or a descriptor a part may have to wait for its start."""
        self._unstarted = [(name, part) for name, part in self._unstarted if not self._stack.start(name, part)]

    def order(self, order: CaptureOrder) -> None:
        """Order a window."""
        self._controller.order(order)

    def parts(self, give_way: Callable[[], None]) -> list[Part]:
        """Return what the parts say about themselves; ``give_way`` is called in between."""
        told = [self._link.status()]
        for others in (self._controller.status, self._rack.status):
            give_way()
            told += others()
        return told

    def figures(self) -> dict[str, int]:
        """Return the counts of `AgentStatus`."""
        counts = self._controller.counts
        return {
            "requests": self._intake.requests,
            "spikes": self._intake.spikes,
            "windows": counts["done"] + counts["empty"],
            "windows_refused": counts["refused"],
            "windows_empty": counts["empty"],
            "windows_failed": counts["failed"],
        }

    @property
    def engine(self) -> str:
        """Name of the engine in use."""
        return self._controller.engine

    def warmed_up(self) -> bool:
        """Whether any route has left its warm-up."""
        return self._intake.warmed_up()

    def _sampler(self) -> Sampler:
        return Sampler(
            self._clock,
            wake=self._tracker.on_overdue,
            give_way=self._give_way,
            digest=self._intake.digest,
            chores=(
                Chore("clock", SELDOM_S, lambda _now_ns: self._look_at_clocks()),
                Chore("hung", SELDOM_S, lambda _now_ns: self._intake.look_for_hung()),
                Chore("roots", 1.0, self._roots.tick),
                Chore("imports", SELDOM_S, lambda _now_ns: self._hooks.poll()),
                Chore("parts", SELDOM_S, lambda _now_ns: self._start_parts()),
                Chore("link", 1.0, lambda _now_ns: self._look_after_link()),
                Chore("report", SELDOM_S, lambda _now_ns: self._report()),
                Chore("routine", SELDOM_S, self._look_by_routine),
            ),
            sensors=self._rack.ticking(),
        )

    def _torch_imported(self, _module: ModuleType) -> None:
        self._tell_who()
        self._controller.torch_imported()

    def _look_at_clocks(self) -> None:
        self._clock.sync()
        moved_ns = self._clock.to_unix(self._began_ns) - self._resource.start_unix_ns
        if abs(moved_ns) > _CLOCK_SET_NS:
            self._tell_who()

    def _tell_who(self) -> None:
        known = replace(self._resource, start_unix_ns=self._clock.to_unix(self._began_ns))
        self._resource = with_torch(known, driver=self._nvml.driver, devices=self._nvml.devices)
        self._link.update(self._resource)

    def _choose_engine(self, setting: str, given_up: Mapping[str, str]) -> tuple[Engine | None, list[Part]]:
        with forks.held_off(), eager_switching(), few_collections():
            from midwatch.capture.select import choose_engine

        folder = str(state_dir(self._settings))
        return choose_engine(setting, service=self._settings.service, state_dir=folder, given_up=given_up)

    def _report(self) -> None:
        """Send what happened since the last report, and the status with every second one."""
        give_way = self._give_way
        seen: dict[str, JsonText] = {}
        for name, take in (("routes", self._intake.take_stats), ("gpu", self._nvml.take), ("host", self._process.take)):
            if some := take():
                give_way()
                seen[name] = list_in_pieces(some, give_way)
        give_way()
        if seen:
            self._link.send({"t": "stats", **seen})
        if self._nvml.devices != self._resource.devices:
            self._tell_who()
        if self._reports % _STATUS_EVERY == 0:
            self._link.send({"t": "status", "status": in_pieces(self._status(give_way), give_way)})
        self._reports += 1

    def _look_after_link(self) -> None:
        if self._link.tick():
            self._reports = 0
            self._report()  # the new companion has not heard our status yet
            self._controller.wake()  # it waits on the link's descriptor, and that may be a new one

    def _look_by_routine(self, now_ns: int) -> None:
        busy = self._intake.requests > self._requests_before
        self._requests_before = self._intake.requests
        if self._routine.due(now_ns / 1e9, warmed_up=self._intake.warmed_up(), busy=busy):
            self._controller.offer(CaptureOrder(os.urandom(8).hex(), "routine"))


def _tell_losses(before: dict[str, int]) -> None:
    """Log in one line what the end cost: nobody will ask for the status any more."""
    lost = [f"{name} {count - before.get(name, 0)}" for name, count in drops.counts() if count != before.get(name)]
    if lost:
        logger.warning("midwatch: not all that was seen could be handed over at the end: %s", ", ".join(lost))
