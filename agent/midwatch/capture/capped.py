"""The capped engine: the profiler's Python calls, which hold the GIL, in windows short enough for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from midwatch.capture.latch import Latch
from midwatch.capture.window import Window, WindowEngine

_BUDGET_S = 0.025
"""How long all Python threads may stand still at the end of a window."""
_FIRST_S = 0.02
_SHORTEST_S = 0.01
_LONGEST_S = 0.5
_REMEMBERED = 3


@dataclass(slots=True)
class Held:
    """torch's result object, and how long the GIL was held for it so far."""

    window: Window
    result: Any
    frozen_s: float


class CappedEngine(WindowEngine):
    """The freeze grows with the events recorded, about 17 µs each, and the events with the window's length.

    How many events a second of this service makes is learnt from the windows before: each gives the freeze per second
    of window, the worst of the last three sets the length of the next. The first window is a short one.
    """

    name = "capped"

    def __init__(self, latch: Latch, reasons: Callable[[bool], str], *, spacing_s: float = 1.0) -> None:
        super().__init__(latch, reasons, spacing_s=spacing_s)
        self._rates: dict[bool, deque[float]] = {deep: deque(maxlen=_REMEMBERED) for deep in (False, True)}

    def longest_s(self, *, deep: bool = False) -> float:
        """The length whose stop, save and freeing would have fitted 25 ms, by the last windows of this kind."""
        rates = self._rates[deep]
        if not rates:
            return _FIRST_S
        return min(_LONGEST_S, max(_SHORTEST_S, _BUDGET_S / max(*rates, 1e-6)))

    def _stop(self, window: Window) -> Held:
        begin_s = time.monotonic()
        result = window.calls.disable()
        return Held(window, result, time.monotonic() - begin_s)

    def _empty(self, handle: Held) -> bool:
        return handle.result is None or handle.result.trace_start_ns() == 0

    def _save(self, handle: Held, path: str) -> None:
        begin_s = time.monotonic()
        handle.result.save(path)
        handle.frozen_s += time.monotonic() - begin_s

    def _free(self, handle: Held) -> None:
        begin_s = time.monotonic()
        handle.result = None
        handle.frozen_s += time.monotonic() - begin_s
        rate = handle.frozen_s / max(handle.window.recorded_s, 1e-3)
        self._rates[handle.window.mode.shapes].append(rate)
