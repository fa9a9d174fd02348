"""Compilations by `torch.compile`, from the callbacks of Dynamo. Dynamo is never imported here: that takes seconds."""

from __future__ import annotations

import sys
import threading
from _thread import get_native_id
from collections.abc import Callable
from types import FrameType
from typing import Any

from midwatch.clock import Clock
from midwatch.guard import guard
from midwatch.model.samples import CompileEvent
from midwatch.sensors.base import SELDOM_S, Sensor, Unavailable
from midwatch.sensors.readings import Readings
from midwatch.watch.stacks import Stack, Stacks

_MAX_KEPT = 256
_MOST_FRAMES = 400
"""Between the callback and whoever called what is compiled."""
_COMPILERS = frozenset({"contextlib", "torch"})


class CompileSensor(Sensor):
    """Hooks Dynamo once the service has imported it.

    Args:
        stacks: walks and names frames.
        clock: the time.
        on_compile: called at the begin of each compilation.
    """

    name = "compile"
    period_s = SELDOM_S

    def __init__(self, stacks: Stacks, clock: Clock, on_compile: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._stacks = stacks
        self._clock = clock
        self._on_compile = on_compile
        self._readings: Readings[CompileEvent] = Readings(_MAX_KEPT)
        self._handler: Any = None
        self._start_ns = 0
        self._stack: Stack = ()
        self._lock = threading.Lock()

    def between(self, start_ns: int, end_ns: int) -> tuple[CompileEvent, ...]:
        """Return the compilations that overlap a time (`Clock.perf_ns`), the oldest first."""
        return self._readings.between(start_ns, end_ns)

    def _look(self, now_ns: int) -> None:  # noqa: ARG002
        """Hook Dynamo where it has been imported since; a module still being imported has no handler yet."""
        with self._lock:  # the thread that imports it looks too
            self._hook()

    def _hook(self) -> None:
        if self._state == "off":
            return  # stopped meanwhile, by another thread
        handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        if handler is None or self._handler is not None:
            return
        if not hasattr(handler, "register_start_callback"):
            raise Unavailable("This torch tells nobody when Dynamo compiles.")
        handler.register_start_callback(self._begins)
        handler.register_end_callback(self._ended)
        self._handler = handler

    def _close(self) -> None:
        with self._lock:
            handler, self._handler = self._handler, None
            if handler is not None:
                handler.remove_start_callback(self._begins)
                handler.remove_end_callback(self._ended)

    def _begins(self, *_args: Any) -> None:
        # Dynamo calls for the outermost compilation only, under a lock of its own: one at a time.
        try:
            self._start_ns = self._clock.perf_ns()
            self._on_compile()
            self._stack = self._stacks.walk(_caller(sys._getframe(1)))  # noqa: SLF001 - the one way to one's own callers
        except Exception as error:
            guard.failed("sensor.compile.begin", error)

    def _ended(self, *args: Any) -> None:
        """Torch up to 2.7 passes nothing, later ones what was compiled and why."""
        try:
            end_ns = self._clock.perf_ns()
            start_ns, self._start_ns = self._start_ns or end_ns, 0
            stack, self._stack = self._stack, ()
            known = args[0] if args else None
            event = CompileEvent(
                start_unix_ns=self._clock.to_unix(start_ns),
                duration_ns=end_ns - start_ns,
                trigger=str(getattr(getattr(known, "callback_trigger", None), "name", "dynamo")).lower(),
                compile_id=str(getattr(known, "compile_id", "")),
                thread_id=get_native_id(),
                frames=self._stacks.frames(stack),
            )
            self._readings.add(start_ns, end_ns, event)
        except Exception as error:
            guard.failed("sensor.compile.end", error)


def _caller(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame that is no part of torch: it called what Dynamo compiles now. None without one."""
    for _ in range(_MOST_FRAMES):
        if frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] not in _COMPILERS:
            return frame
        frame = frame.f_back
    return None
