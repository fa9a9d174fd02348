"""Fakes for tests: a clock that is turned by hand, and parts that remember what they were told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from midwatch.capture.base import EngineRefused, WindowResult
from midwatch.model.pieces import JsonText


class FakeClock:
    """A `Clock` that stands still until somebody moves it. Waiting and sleeping move it, without taking time."""

    def __init__(self, perf_ns: int = 1_000_000_000, unix_ns: int = 1_700_000_000_000_000_000) -> None:
        self._perf_ns = perf_ns
        self._offset_ns = unix_ns - perf_ns
        self.cpu = 0
        self.slept: list[float] = []
        """Each sleep and each wait that ran out, in seconds."""

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._perf_ns += round(seconds * 1e9)

    def perf_ns(self) -> int:
        """Return the monotonic time."""
        return self._perf_ns

    def cpu_ns(self) -> int:
        """Return the CPU time, which moves only when a test sets `cpu`."""
        return self.cpu

    def unix_ns(self) -> int:
        """Return the wall clock."""
        return self._perf_ns + self._offset_ns

    def to_unix(self, perf_ns: int) -> int:
        """Return the wall-clock time of a monotonic time."""
        return perf_ns + self._offset_ns

    def sync(self) -> None:
        """Do nothing: the two clocks never part."""

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """Return at once; where the event is not set, ``timeout_s`` has passed."""
        if not event.is_set() and timeout_s is not None:
            self.sleep(timeout_s)
        return event.is_set()

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        self.slept.append(seconds)
        self.advance(seconds)


class FakeLink:
    """A link without a companion: keeps the frames that were sent, and gives those that a test puts in."""

    def __init__(self, trace_dir: str = "") -> None:
        self.trace_dir = trace_dir
        self.sent: list[dict[str, Any]] = []
        self.inbox: list[dict[str, Any]] = []
        self.full = False
        """Whether frames are dropped."""
        self.arrived = threading.Event()
        """Set at each frame that was sent."""

    def fileno(self) -> int:
        """Return -1: there is nothing to wait for."""
        return -1

    def receive(self) -> list[dict[str, Any]]:
        """Return what a test has put into `inbox`."""
        frames, self.inbox = self.inbox, []
        return frames

    def send(self, frame: dict[str, Any]) -> bool:
        """Keep the frame."""
        if self.full:
            return False
        self.sent.append({k: json.loads(v.text) if isinstance(v, JsonText) else v for k, v in frame.items()})
        self.arrived.set()
        return True

    def frames(self, kind: str) -> list[dict[str, Any]]:
        """Return the frames of one type that were sent."""
        return [frame for frame in self.sent if frame["t"] == kind]


class FakeEngine:
    """A capture engine that records nothing and writes a trace without events."""

    name = "direct"

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.off = ""
        """Why it is unavailable, "" where it works."""
        self.broken = ""
        """Why it is given up, "" where it is not."""
        self.warns = ""
        """What is amiss although windows open."""
        self.refuses = ""
        """Why the next window is refused, "" where it opens."""
        self.empty = False
        self.longest = 60.0
        self.opened: list[bool] = []
        """``deep`` of each window."""
        self.aborted = 0
        self._start_unix_ns = 0

    def unavailable(self, *, deep: bool = False) -> str:  # noqa: ARG002 - the fake knows no difference
        """Return `broken` or `off`."""
        return self.broken or self.off

    def warning(self) -> str:
        """Return `warns`."""
        return self.warns

    def longest_s(self, *, deep: bool = False) -> float:  # noqa: ARG002
        """Return `longest`."""
        return self.longest

    def open(self, *, deep: bool, edge: Callable[[], None] | None = None) -> None:
        """Begin, or refuse."""
        if self.refuses:
            raise EngineRefused(self.refuses)
        if edge is not None:
            edge()
        self.opened.append(deep)
        self._start_unix_ns = self._clock.unix_ns()

    def close(self, path: str) -> WindowResult:
        """Write a trace without events."""
        text = '{"traceEvents": []}'
        if not self.empty:
            Path(path).write_text(text, encoding="utf-8")
        return WindowResult(self._start_unix_ns, self._clock.unix_ns(), 1.0, 0 if self.empty else len(text), self.empty)

    def abort(self) -> None:
        """Count the abort."""
        self.aborted += 1
