"""Garbage collections, from `gc.callbacks`: how long, and on which line they began.

The callback runs inside every collection, on the thread that collects and while all others wait, so it only notes
numbers; a stack is looked at for the long ones alone, and named when somebody asks.
"""

from __future__ import annotations

import gc
import sys
from _thread import get_ident, get_native_id
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from midwatch.clock import Clock
from midwatch.model.samples import GcPause
from midwatch.sensors.base import SELDOM_S, Sensor
from midwatch.watch.snapshot import snapshot
from midwatch.watch.stacks import Stack, Stacks

_KEPT_NS = 200_000
"""Shorter pauses are counted, not kept: a young collection of some microseconds explains nothing."""
_MAX_KEPT = 512


class _Pause(NamedTuple):
    start_ns: int
    end_ns: int
    generation: int
    collected: int
    thread_id: int
    ident: int
    objects: int
    stack: Stack


class GcSensor(Sensor):
    """Sees all collections of the process.

    Args:
        stacks: walks and names frames.
        clock: the time.
        on_pause: called with the length of each collection in nanoseconds, inside it.
    """

    name = "gc"
    period_s = SELDOM_S

    def __init__(self, stacks: Stacks, clock: Clock, on_pause: Callable[[int], None] = lambda _ns: None) -> None:
        super().__init__()
        self._stacks = stacks
        self._clock = clock
        self._perf_ns = clock.perf_ns
        self._on_pause = on_pause
        self._start_ns = 0
        self._young = 0
        self._error: Exception | None = None
        self._kept: deque[_Pause] = deque(maxlen=_MAX_KEPT)

    def between(self, start_ns: int, end_ns: int) -> tuple[GcPause, ...]:
        """Return the longer pauses that overlap a time (`Clock.perf_ns`), the oldest first."""
        kept = snapshot(lambda: list(self._kept))
        return tuple(self._value(pause) for pause in kept if pause.start_ns <= end_ns and pause.end_ns >= start_ns)

    def _open(self) -> None:
        gc.callbacks.append(self._collecting)

    def _look(self, now_ns: int) -> None:  # noqa: ARG002
        """Report what went wrong in the callback since the last look."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _close(self) -> None:
        gc.callbacks.remove(self._collecting)

    def _collecting(self, phase: str, info: Mapping[str, int]) -> None:
        # One collection runs at a time in a process, and both calls come on its thread: one field is enough.
        try:
            if phase == "start":
                self._young = gc.get_count()[0] if info["generation"] == 0 else 0
                self._start_ns = self._perf_ns()
            elif self._start_ns:
                end_ns = self._perf_ns()
                start_ns, self._start_ns = self._start_ns, 0
                self._on_pause(end_ns - start_ns)
                if end_ns - start_ns >= _KEPT_NS:
                    self._keep(start_ns, end_ns, info)
        except Exception as error:
            # Not reported from here: the collection may have begun while this thread held the guard's own lock.
            self._error = error

    def _keep(self, start_ns: int, end_ns: int, info: Mapping[str, Any]) -> None:
        # Up from here: `_collecting`, then the frame in which the collection began.
        stack = self._stacks.walk(sys._getframe(2))  # noqa: SLF001 - there is no other way
        self._kept.append(
            _Pause(
                start_ns=start_ns,
                end_ns=end_ns,
                generation=info["generation"],
                collected=info["collected"],
                thread_id=get_native_id(),
                ident=get_ident(),
                objects=self._young,
                stack=stack,
            )
        )

    def _value(self, pause: _Pause) -> GcPause:
        frames = self._stacks.frames(pause.stack)
        return GcPause(
            start_unix_ns=self._clock.to_unix(pause.start_ns),
            duration_ns=pause.end_ns - pause.start_ns,
            generation=pause.generation,
            collected=pause.collected,
            thread_id=pause.thread_id,
            thread_ident=pause.ident,
            explicit=bool(frames) and frames[0].callee == "collect",
            frames=frames,
            objects=pause.objects,
        )
