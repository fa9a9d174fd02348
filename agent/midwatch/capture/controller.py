"""The profiler thread: it alone touches the profiler. It sleeps until an order comes, opens one window at a time, and
hands over the trace with everything that the agent saw beside it.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from midwatch.capture.account import WindowAccount, why_no_engine
from midwatch.capture.base import Engine, EngineError, EngineRefused, WindowResult, unwritten
from midwatch.capture.budget import Budget
from midwatch.capture.edge import wait_for_edge
from midwatch.capture.session import FORKED, session
from midwatch.capture.trackfile import write_tracks
from midwatch.clock import Clock
from midwatch.detect.windows import WindowLog
from midwatch.drops import drops
from midwatch.guard import guard
from midwatch.lifecycle import Worker
from midwatch.model.capture import Capture, CaptureOrder
from midwatch.model.plain import from_plain, to_plain
from midwatch.model.status import Part
from midwatch.model.trace import Caveat
from midwatch.model.tracks import Tracks
from midwatch.requests.tracker import Tracker
from midwatch.watch.switching import eager_switching

_MAX_WAITING = 4
_COUNT_EVERY_S = 0.005
_HANGS_NS = 60_000_000_000
"""A window lasts ten seconds at most; stop and save took up to 1.1 s in the largest ones seen."""
_HANGS = "the profiler has hung for over a minute: restart the service, with MIDWATCH_ENGINE=off if it happens again"
_UNREAD = "there is no companion process that could read the trace"

ChooseEngine = Callable[[str, Mapping[str, str]], "tuple[Engine | None, list[Part]]"]
"""Chooses by the setting, without the engines that have failed in this process, which come with their reasons."""


class Line(Protocol):
    """The part of the link that the profiler thread uses."""

    @property
    def trace_dir(self) -> str:
        """Where traces are written; "" where nobody would read them."""
        ...

    def fileno(self) -> int:
        """Return the descriptor to wait on, -1 where there is none."""
        ...

    def receive(self) -> list[dict[str, Any]]:
        """Return the frames that came in."""
        ...

    def send(self, frame: dict[str, Any]) -> bool:
        """Send a frame; False where it was dropped."""
        ...


class Beside(Protocol):
    """What is recorded beside a window, and gathered after it."""

    def begin(self) -> None:
        """Begin to sample stacks."""
        ...

    def halt(self) -> None:
        """Sample no more, and keep what was seen for `end`. May be called again."""
        ...

    def end(self) -> None:
        """Name what was seen. May be called again."""
        ...

    def finished_between(self, start_ns: int, end_ns: int) -> int:
        """Return how many requests have begun and ended between two monotonic times."""
        ...

    def tracks(self, capture: Capture, start_ns: int, end_ns: int) -> Tracks:
        """Return all that was seen between two monotonic times; completes the capture's route and workload."""
        ...


class Controller:
    """Takes orders, opens windows, and answers each order with a `Capture`, whatever came of it."""

    def __init__(
        self,
        clock: Clock,
        *,
        setting: str,
        budget: Budget,
        link: Line,
        tracker: Tracker,
        windows: WindowLog,
        beside: Beside,
        choose: ChooseEngine,
    ) -> None:
        self._clock = clock
        self._setting = setting
        self._budget = budget
        self._link = link
        self._tracker = tracker
        self._windows = windows
        self._beside = beside
        self._choose = choose
        self._engine: Engine | None = None
        self._parts = [Part("engine", "off", "torch is not imported yet")]
        self._orders: deque[tuple[CaptureOrder, int]] = deque()
        self._worker = Worker("midwatch-profiler", self._run)
        self._stopping = threading.Event()
        self._wake_read, self._wake_write = -1, -1
        self._pipe_lock = threading.RLock()
        self._torch_came = False
        self._pid = 0
        """Of the process whose thread runs; 0 before the start and after the end."""
        self._given_up: dict[str, str] = {}
        self._window_ns = 0
        """When the window under way was begun, 0 where there is none."""
        self._account = WindowAccount()
        self.counts = self._account.counts
        """Captures by state."""

    @property
    def engine(self) -> str:
        """Name of the engine in use, "" where there is none."""
        return self._engine.name if self._engine is not None else ""

    def status(self) -> list[Part]:
        """Return a part for each engine, and one that says what keeps windows from opening."""
        return [*self._parts, self._windows_part()]

    def _windows_part(self) -> Part:
        obstacle, engine = self._obstacle(), self._engine
        remarks = []
        if obstacle is None:
            remarks.append(self._budget.refuse("routine", self._now_s()))
        if engine is not None:
            remarks.append(engine.warning())
        return self._account.part(obstacle, remarks)

    def _obstacle(self) -> Part | None:
        """Return why no window opens now, whoever asks for it; None where one could."""
        if self._pid not in (0, os.getpid()):
            return Part("windows", "off", FORKED)
        if self._pid and not self._worker.alive:
            return Part("windows", "failed", "the profiler thread does not run; the log has the error")
        begun_ns = self._window_ns
        if begun_ns and self._clock.perf_ns() - begun_ns > _HANGS_NS:
            return Part("windows", "failed", _HANGS)
        reason = session.in_the_way() or ("" if self._link.trace_dir else _UNREAD)
        if not reason:
            engine = self._engine
            if engine is None:
                switched_off = all(part.state == "off" for part in self._parts)
                return Part("windows", "off" if switched_off else "unavailable", why_no_engine(self._parts))
            reason = engine.unavailable() or self._budget.refuse("demand", self._now_s())
        return Part("windows", "unavailable", reason) if reason else None

    def start(self) -> None:
        """Start the thread. Where that fails nothing is left behind, and it may be called again."""
        self._pid = os.getpid()
        self._stopping.clear()
        if self._wake_read < 0:
            self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            session.on_wanted(self.wake)
        try:
            self._worker.start()
        except Exception:
            session.forget(self.wake)
            self._close_pipe()
            raise

    def stop(self) -> None:
        """End a window that is open, without saving it, and the thread."""
        self._pid = 0
        self._stopping.set()
        session.forget(self.wake)
        if self._worker.stop(timeout_s=3.0, wake=self.wake):
            self._close_pipe()

    def _close_pipe(self) -> None:
        with self._pipe_lock:
            ends = self._wake_read, self._wake_write
            self._wake_read = self._wake_write = -1
            for end in ends:
                if end >= 0:
                    os.close(end)

    def wake(self) -> None:
        """Rouse the thread. Never blocks."""
        # Under the lock, so that the number is not that of a file which the service has opened meanwhile.
        with self._pipe_lock, contextlib.suppress(OSError):
            if self._wake_write >= 0:
                os.write(self._wake_write, b"w")

    def torch_imported(self) -> None:
        """Have the thread choose its engine, and guard the user's profiler sessions, now that torch is there."""
        self._torch_came = True
        self.wake()

    def order(self, order: CaptureOrder) -> None:
        """Order a window; any thread may. The answer is a ``capture`` frame."""
        if len(self._orders) >= _MAX_WAITING:
            self._answer(order, "refused", f"{_MAX_WAITING} other windows are waiting already")
            return
        self._orders.append((order, self._clock.perf_ns()))
        self.wake()

    def offer(self, order: CaptureOrder) -> bool:
        """Order a window that nobody has asked for, unless it is plain that none can open now. Return whether it was.

        Called on the sampler's thread while the profiler thread works: what it reads there may be a moment old.
        """
        engine = self._engine
        if engine is None or self._orders or self._budget.refuse(order.reason, self._now_s()):
            return False
        self.order(order)
        return True

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with guard.at("controller"):
                if self._torch_came:
                    self._torch_came = False
                    self._choose_engine()
                for frame in self._link.receive():
                    if frame.get("t") == "order":
                        self.order(from_plain(CaptureOrder, frame.get("order")))
                    elif frame.get("t") == "unread":
                        self._account.note("failed", str(frame.get("detail", "")))
                # One at a time: the companion is heard in between, however many wait.
                if self._orders and not stop.is_set():
                    self._serve(*self._orders.popleft())
                    if self._orders:
                        continue
            if not stop.is_set():
                self._sleep(self._link.fileno(), None)

    def _sleep(self, link_fd: int, timeout_s: float | None) -> None:
        """Wait for a wake-up, for the companion where ``link_fd`` is given, or for the time to pass."""
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        if link_fd >= 0:
            poll.register(link_fd, select.POLLIN)
        try:
            poll.poll(None if timeout_s is None else max(0.0, timeout_s * 1e3))
        except OSError as error:
            guard.failed("controller.poll", error)
            self._stopping.wait(0.1)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def _serve(self, order: CaptureOrder, ordered_ns: int) -> None:
        """Answer one order."""
        reason = self._budget.refuse(order.reason, self._now_s())
        engine = self._engine_for(order)
        if not self._link.trace_dir:
            reason = _UNREAD
        if reason or isinstance(engine, str):
            self._answer(order, "refused", reason or str(engine), ordered_ns)
            return
        self._wait_out(self._budget.spacing_left_s(self._now_s()))
        base = Capture(
            capture_id=order.capture_id,
            reason=order.reason,
            state="failed",
            engine=engine.name,
            deep=order.deep,
            command_id=order.command_id,
            spike_id=order.spike_id,
            route=order.route,
            ordered_unix_ns=self._clock.to_unix(ordered_ns),
        )
        self._window_ns = self._clock.perf_ns()
        self._windows.begin(order.capture_id, self._window_ns)
        good = False
        try:
            with eager_switching():
                good = self._window(engine, order, base, ordered_ns)
        except EngineError as error:
            state = "refused" if isinstance(error, EngineRefused) else "failed"
            self._remove(self._paths(order))
            self._send(replace(base, state=state, detail=_sentence(error)), "", "")
            good = state == "refused"
        except Exception as error:
            # An order is always answered, and a session never left open: the user's would wait for it.
            guard.failed("controller.window", error)
            guard.call("controller.abort", engine.abort, default=None)
            self._remove(self._paths(order))
            self._send(replace(base, detail=f"{type(error).__name__}: {error}"), "", "")
        finally:
            guard.call("controller.beside", self._beside.end, default=None)
            self._windows.end(self._clock.perf_ns())
            self._budget.ended(self._now_s(), good=good)
            self._window_ns = 0
            guard.call("controller.choose", self._choose_engine, default=None)

    def _window(self, engine: Engine, order: CaptureOrder, base: Capture, ordered_ns: int) -> bool:
        """Open, wait, close, and hand over. Return whether it went well. Raises `EngineError`."""
        opened = {"t": "open", "command_id": order.command_id, "capture_id": order.capture_id}
        engine.open(deep=order.deep, edge=self._edge)
        start_ns = self._clock.perf_ns()
        self._beside.begin()
        if order.command_id:  # somebody waits for it; one small packet, and where the socket is full, none
            self._link.send(opened)
        self._budget.opened(start_ns / 1e9)
        longest_s = engine.longest_s(deep=order.deep)
        seconds = self._budget.seconds(order.seconds, order.requests, longest_s)
        self._wait_inside(start_ns, order.requests, seconds)
        if session.wanted.is_set() or self._stopping.is_set():
            engine.abort()
            raise EngineRefused(self._given_up_for())
        self._edge()
        end_ns = self._clock.perf_ns()
        self._beside.halt()
        trace_path, tracks_path = self._paths(order)
        result = engine.close(trace_path)
        self._beside.end()
        self._windows.end(self._clock.perf_ns())
        ended = self._beside.finished_between(start_ns, end_ns) if order.requests else 0
        base = replace(base, caveats=_short_of(order, ended, seconds))
        capture = _completed(base, result, ready_ms=(start_ns - ordered_ns) / 1e6)
        self._budget.measured((end_ns - start_ns) / 1e9, result.trace_bytes)
        tracks = self._beside.tracks(capture, start_ns, end_ns)
        if result.empty:
            self._send(tracks.capture, "", "")
            return False
        try:
            write_tracks(tracks_path, tracks, self._clock)
        except OSError as error:
            raise unwritten(self._link.trace_dir, error) from error
        self._send(tracks.capture, trace_path, tracks_path)
        return True

    def _given_up_for(self) -> str:
        if self._stopping.is_set():
            return "the agent was stopped while the window was open, so the window was given up"
        if session.exiting:
            return "the service was ending while the window was open, so the window was given up"
        return "the service began a profiler session of its own while the window was open, so the window was given up"

    def _edge(self) -> None:
        wait_for_edge(self._tracker, self._clock, self._stopping)

    def _wait_inside(self, start_ns: int, requests: int, seconds: float) -> None:
        """Let the window record: for ``seconds``, until ``requests`` whole ones have ended, or until it must end."""
        end_ns = start_ns + int(seconds * 1e9)
        while (left_ns := end_ns - self._clock.perf_ns()) > 0:
            if session.wanted.is_set() or self._stopping.is_set():
                return
            if requests and self._beside.finished_between(start_ns, self._clock.perf_ns()) >= requests:
                return
            self._sleep(-1, min(left_ns / 1e9, _COUNT_EVERY_S) if requests else left_ns / 1e9)

    def _wait_out(self, seconds: float) -> None:
        if seconds > 0:
            self._stopping.wait(seconds)

    def _engine_for(self, order: CaptureOrder) -> Engine | str:
        """Return the engine that can do this, or why there is none, in one sentence."""
        self._choose_engine()
        if self._engine is None:
            return why_no_engine(self._parts)
        return self._engine.unavailable(deep=order.deep) or self._engine

    def _choose_engine(self) -> None:
        """Have an engine that works: without torch there was none; or it has failed, and the next one stands by."""
        before = self._engine
        if before is not None:
            if not before.unavailable():
                return
            if before.broken:
                # A new one of its kind would be as good as new, but for what the old one did to the profiler.
                self._given_up[before.name] = before.broken
        self._engine, self._parts = self._choose(self._setting, self._given_up)
        if before is not None and self._engine is not None and self._engine.name == before.name:
            # What kept it from working has passed meanwhile. It knows of its windows, which a new one does not.
            self._engine = before

    def _answer(self, order: CaptureOrder, state: str, detail: str, ordered_ns: int = 0) -> None:
        self._send(
            Capture(
                capture_id=order.capture_id,
                reason=order.reason,
                state=state,
                engine=self.engine,
                deep=order.deep,
                detail=detail,
                command_id=order.command_id,
                spike_id=order.spike_id,
                route=order.route,
                ordered_unix_ns=self._clock.to_unix(ordered_ns) if ordered_ns else self._clock.unix_ns(),
            ),
            "",
            "",
        )

    def _send(self, capture: Capture, trace_path: str, tracks_path: str) -> None:
        self._account.note(capture.state, capture.detail)
        frame = {
            "t": "capture",
            "capture": to_plain(capture),
            "trace_path": trace_path,
            "tracks_path": tracks_path,
        }
        if not self._link.send(frame):
            drops.drop("capture_unsent")
            self._remove((trace_path, tracks_path))

    def _paths(self, order: CaptureOrder) -> tuple[str, str]:
        """Return the files of trace and tracks."""
        stem = f"{self._link.trace_dir}/{order.capture_id}"
        return f"{stem}.trace.json", f"{stem}.tracks.json"

    def _remove(self, paths: tuple[str, str]) -> None:
        for path in paths:
            # Kineto writes beside the name at first, and where the disk is full it leaves that there.
            for written in (path, f"{path}.tmp") if path else ():
                with contextlib.suppress(OSError):
                    Path(written).unlink()

    def _now_s(self) -> float:
        return self._clock.perf_ns() / 1e9


def _completed(base: Capture, result: WindowResult, *, ready_ms: float) -> Capture:
    return replace(
        base,
        state="empty" if result.empty else "done",
        detail="the profiler gave no records back" if result.empty else "",
        start_unix_ns=result.start_unix_ns,
        end_unix_ns=result.end_unix_ns,
        ready_ms=ready_ms,
        stop_ms=result.stop_ms,
        trace_bytes=result.trace_bytes,
    )


def _short_of(order: CaptureOrder, ended: int, seconds: float) -> tuple[Caveat, ...]:
    """Say so where a window closed before it held the whole requests that it was to hold, or lasted as long."""
    if not order.requests and order.seconds > seconds:
        text = f"The window was to last {order.seconds:.3g} s; it closed at its time limit of {seconds:.3g} s."
        return (Caveat("window_shortened", text),)
    if ended >= order.requests:
        return ()
    held = f"{ended or 'none'} had ended when it closed at its time limit of {seconds:.3g} s"
    text = f"The window was to hold {order.requests} whole request{'s' * (order.requests != 1)}; {held}."
    return (Caveat("requests_missing", text, order.requests - ended),)


def _sentence(error: EngineError) -> str:
    return str(error) or type(error).__name__
