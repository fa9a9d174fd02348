"""What both engines share: the life of one window, from the lock to the saved file.

open:  lock, crash marker, prepare, 30 ms of warm-up where a device is recorded, enable.
close: operators' callbacks out of the threads and 30 ms of grace, stop, save, free, settle, marker away, unlock.

The lock is held from before prepare until after the tear-down has settled, so that a session of the user's never meets
any part of ours. Whatever goes wrong on the way, the session is over and the lock is free at the end.
"""

from __future__ import annotations

import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midwatch.capture import graphs, session, teardown
from midwatch.capture.base import EngineError, EngineRefused, TraceUnwritten, WindowResult, unwritten
from midwatch.capture.environment import tears_down
from midwatch.capture.latch import Latch, Phase
from midwatch.capture.torchapi import Mode, ProfilerCalls, loaded_torch, mode_for
from midwatch.guard import guard

WARM_UP_S = 0.03
"""From attaching CUPTI to recording; the first records of a cold attach are slow and dropped."""
GRACE_S = 0.03
"""From taking the operator callbacks out to stopping. Before torch 2.14 stopping while a thread is inside an operator
frees what it writes to; with this grace there was no crash in 6,000 windows."""
SHORTEST_DEVICE_S = 0.06
"""Tearing down a session closed at once has hung services; sessions of this length never did."""
GRAPH_WAIT_S = 5.0
_BLOCK_BYTES = 4096
MOST_THREADS = 512
"""Threads of Python beyond which no window opens. Where a thousand work, one that holds the GIL for a second makes all
others ask for it in turn, and such a service may not recover."""
_FAILURES = 3
"""Windows that fail in a row before the engine is given up for this process."""


@dataclass(slots=True)
class Window:
    """The window that is open. ``recorded_s`` is known from its end on."""

    calls: ProfilerCalls
    mode: Mode
    thread: int
    tears_down: bool
    start_unix_ns: int = 0
    start_s: float = 0.0
    recorded_s: float = 0.0


class WindowEngine(ABC):
    """One engine. `open`, `close` and `abort` are called on one and the same thread, the profiler thread.

    Args:
        latch: the engine's crash marker.
        reasons: gives "" or why the engine cannot work here and now, for light or deep windows (``deep``).
        spacing_s: seconds from the end of one session, ours or the user's, to the next window.
    """

    name: str = ""
    harmless_in_capture = False
    """Whether light windows may open and close while a CUDA graph is being captured."""

    def __init__(self, latch: Latch, reasons: Callable[[bool], str], *, spacing_s: float = 1.0) -> None:
        self._latch = latch
        self._reasons = reasons
        self._spacing_s = spacing_s
        self._open: Window | None = None
        self._ended_s = -spacing_s
        self._failures = 0
        self.broken = ""
        """Why this engine is given up for this process, in one sentence; "" where it is not."""
        self.phases: list[tuple[str, float]] = []
        """The steps of the last window and when each began, in seconds of the monotonic clock; the last is ``end``."""

    def unavailable(self, *, deep: bool = False) -> str:
        """Return "" where the engine works here, or why not in one sentence. Cheap; never imports torch."""
        return self.broken or self._reasons(deep)

    def warning(self) -> str:
        """Return what is amiss although windows open, in one sentence with the remedy, or ""."""
        return self._latch.problem

    @abstractmethod
    def longest_s(self, *, deep: bool = False) -> float:
        """How long a window may be, in seconds, so that its end stays inside the engine's budget."""

    @abstractmethod
    def _stop(self, window: Window) -> Any:
        """End the session; returns the engine's own handle of the result. Raises `Exception`."""

    @abstractmethod
    def _empty(self, handle: Any) -> bool:
        """Whether there is nothing to save."""

    @abstractmethod
    def _save(self, handle: Any, path: str) -> None:
        """Write the trace to ``path``. Raises `Exception`."""

    @abstractmethod
    def _free(self, handle: Any) -> None:
        """Give the result's memory back."""

    def open(self, *, deep: bool = False, edge: Callable[[], None] | None = None) -> None:
        """Take the session lock, prepare, warm up and start recording. Raises `EngineRefused` or `EngineError`.

        ``edge`` is called once just before recording starts, and returns at an edge between requests.
        """
        self._refuse(self.unavailable(deep=deep))
        session.install()
        graphs.install()
        self._refuse(self._too_soon())
        self._refuse(_too_many_threads())
        torch = loaded_torch()
        mode = mode_for(torch, deep=deep)
        self._refuse("a CUDA graph is being captured" if self._must_be_quiet(mode) and graphs.graphs.capturing else "")
        self._refuse(session.session.try_acquire(self.name))
        try:
            self._start(torch, mode, edge)
        except Exception as error:
            # How far Kineto got is not known, so this engine is not used again in this process. Nothing is stopped:
            # before torch 2.12 stopping what was not enabled is a segfault.
            self.broken = f"a window could not be opened: {error}"
            self._open = None
            self._release()
            raise EngineError(self.broken) from error
        if session.session.wanted.is_set():
            self.abort()
            raise EngineRefused("the service opened its own profiler just now")

    def close(self, path: str) -> WindowResult:
        """Stop recording and save the trace to ``path``, then release the lock. Raises `EngineError`.

        However it ends, the session is over and the lock free.
        """
        return self._finish(path)

    def abort(self) -> None:
        """End a session without saving, at exit or before a session of the user's. Does nothing where none is open."""
        if self._open is not None:
            self._finish(None)

    def _start(self, torch: Any, mode: Mode, edge: Callable[[], None] | None) -> None:
        window = Window(ProfilerCalls(torch, mode), mode, threading.get_ident(), mode.device and tears_down())
        self._open = window
        self.phases = []
        self._latch.enter(Phase.OPEN)
        if mode.ops:
            session.session.mute = window.calls.mute_ops
        self._step("prepare")
        window.calls.prepare()
        self._step("warm-up")
        if mode.device:
            time.sleep(WARM_UP_S)
        if edge is not None:
            guard.call("capture.edge", edge, default=None)
        self._step("enable")
        window.calls.enable()
        window.start_unix_ns, window.start_s = time.time_ns(), time.monotonic()
        self._step("recording", Phase.RECORDING)

    def _finish(self, path: str | None) -> WindowResult:
        window = self._open
        if window is None:
            raise EngineError("no window is open")
        if threading.get_ident() != window.thread:
            raise EngineError("a window can only be ended on the thread that opened it")
        self._open = None
        if session.session.forked:
            raise EngineError("the window belongs to the process that this one was forked from")
        try:
            if window.mode.device:
                time.sleep(max(0.0, window.start_s + SHORTEST_DEVICE_S - time.monotonic()))
            if self._must_be_quiet(window.mode):
                with graphs.graphs.quiet(GRAPH_WAIT_S):
                    result = self._stop_and_save(window, path)
            else:
                result = self._stop_and_save(window, path)
            self._failures = 0
            return result
        except TraceUnwritten:
            raise  # the disk's fault: the engine is as good as before
        except Exception as error:
            self._failures += 1
            if self._failures >= _FAILURES:
                self.broken = f"{self._failures} windows in a row failed, the last with: {error}"
            raise EngineError(f"the window could not be saved: {error}") from error
        finally:
            self._settle(window)

    def _stop_and_save(self, window: Window, path: str | None) -> WindowResult:
        end_unix_ns, begin_s = time.time_ns(), time.monotonic()
        window.recorded_s = begin_s - window.start_s
        self._step("mute", Phase.STOP)
        if window.mode.ops:
            window.calls.mute_ops()
            time.sleep(GRACE_S)
        self._step("stop")
        handle = self._stop(window)
        trace_bytes = 0
        try:
            empty = self._empty(handle)
            if path is not None and not empty:
                self._step("save", Phase.SAVE)
                self._save(handle, path)
                trace_bytes = _size_of(path)
        finally:
            self._step("free")
            self._free(handle)
        return WindowResult(
            start_unix_ns=window.start_unix_ns,
            end_unix_ns=end_unix_ns,
            stop_ms=(time.monotonic() - begin_s) * 1e3,
            trace_bytes=trace_bytes,
            empty=empty,
        )

    def _settle(self, window: Window) -> None:
        self._step("settle", Phase.SETTLE)
        if window.tears_down:
            teardown.settle()
        self._step("end")
        self._release()

    def _step(self, name: str, phase: Phase | None = None) -> None:
        self.phases.append((name, time.monotonic()))
        if phase is not None:
            self._latch.enter(phase)

    def _release(self) -> None:
        self._latch.clear()
        self._ended_s = time.monotonic()
        session.session.release()

    def _must_be_quiet(self, mode: Mode) -> bool:
        return mode.device and (mode.ops or not self.harmless_in_capture)

    def _too_soon(self) -> str:
        since_s = time.monotonic() - max(self._ended_s, session.session.user_ended_s)
        if since_s >= self._spacing_s:
            return ""
        return f"the last profiler session ended {since_s:.1f} s ago; order again in {self._spacing_s - since_s:.1f} s"

    def _refuse(self, reason: str) -> None:
        if reason:
            raise EngineRefused(reason)


def _size_of(path: str) -> int:
    """Return the size of a trace in bytes. Raises `TraceUnwritten` where the disk took none: Kineto says nothing."""
    try:
        return Path(path).stat().st_size
    except OSError:
        folder = Path(path).parent
        try:
            with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                file.write(bytes(_BLOCK_BYTES))
        except OSError as error:
            raise unwritten(folder, error) from error
        raise EngineError("the profiler wrote no trace") from None


def _too_many_threads() -> str:
    count = len(getattr(threading, "_active", ()))
    return f"{count} threads run Python here, and a window would hold all of them up" if count > MOST_THREADS else ""
