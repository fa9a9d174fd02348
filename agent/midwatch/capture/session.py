"""The one lock around torch's profiler: a session of the user's and a window of ours never meet.

Two sessions in one process crash it, whichever way they overlap: ours opened inside the user's session or its warm-up,
the user's opened in ours or while our stop runs without the GIL. Kineto itself does not say who is there
(`_profiler_enabled()` reads False on the thread that opened a window of all threads, and True after a session has
passed). So the places where a user's session begins and ends are wrapped, and mark it here *from prepare on*:

* ours tries the lock and is refused while any session of the user's is marked;
* the user's always goes through. Where a window of ours is open, its profiler thread is asked to give it up, the only
  thread that may, and the user's call waits: bounded, since a profiler that hangs must not take the host along.

Exit is treated like a user who wants the profiler and never gives it back.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from midwatch.capture import teardown
from midwatch.capture.torchapi import loaded_torch
from midwatch.guard import guard

logger = logging.getLogger("midwatch")

YIELD_TIMEOUT_S = 30.0
"""How long a user's session waits for ours to end. Stop and save took up to 1.1 s in the largest windows seen."""
EXIT_TIMEOUT_S = 10.0
FORKED = "this process was forked from a watched one: windows are off in forked children"
_UNKNOWN = 0
"""Key of a session that was running before the wrappers were installed."""


class ProfilerSession:
    """Who has the profiler: nobody, a window of ours, or any number of sessions of the user's."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        """Set while the user (or the exit) waits for our window to end: the profiler thread must abort it."""
        self.yielded = 0
        """Windows of ours that were given up for a session of the user's."""
        self.user_ended_s = 0.0
        """When the last session of the user's ended, on the monotonic clock; 0 where there was none."""
        self.mute: Callable[[], None] | None = None
        """Takes an open window's callbacks out of the threads: in a child forked meanwhile, and as the last resort at
        exit, where the callbacks would outlive what they point at."""
        self._used = False
        self._wakers: list[Callable[[], None]] = []
        self._users: set[int] = set()
        self._exiting = False
        self._forked = False
        self._owner = ""
        self._free = threading.Condition()

    def on_wanted(self, waker: Callable[[], None]) -> None:
        """Have ``waker`` called, on the user's thread, when our window must end at once. It must not block."""
        self._wakers.append(waker)

    def forget(self, waker: Callable[[], None]) -> None:
        """Call ``waker`` no more."""
        if waker in self._wakers:
            self._wakers.remove(waker)

    @property
    def forked(self) -> bool:
        """Whether this is a forked child of the process in which the wrappers were installed."""
        return self._forked

    @property
    def exiting(self) -> bool:
        """Whether the process is on its way out."""
        return self._exiting

    def refusal(self) -> str:
        """Why a window must not be opened now, in one sentence, or ""."""
        if in_the_way := self.in_the_way():
            return in_the_way
        return f"the {self._owner} engine has a window open" if self._owner else ""

    def in_the_way(self) -> str:
        """What keeps windows of ours from opening that is not one of them, or ""."""
        if self._forked:
            return FORKED
        if self._exiting:
            return "the process is exiting"
        if self._users:
            return "a profiler session of the service is open"
        if _python_flag():
            return "another profiler is running in the service"
        return ""

    def try_acquire(self, owner: str) -> str:
        """Take the profiler for a window of ours; returns "" or why not. Never waits."""
        with self._free:
            reason = self.refusal()
            if not reason:
                self._owner = owner
                self._used = True
                self.wanted.clear()
            return reason

    def release(self) -> None:
        """Give the profiler back, with Kineto's session over and its result freed."""
        with self._free:
            self._owner = ""
            self.mute = None
            self.wanted.clear()
            self._free.notify_all()

    def user_begins(self, key: int) -> None:
        """Mark a session of the user's, and wait until ours has ended."""
        with self._free:
            self._users.add(key)
        if not self._take_back(YIELD_TIMEOUT_S):
            logger.warning("midwatch: its profiler window did not end in %.0f s; yours goes ahead", YIELD_TIMEOUT_S)

    def user_ends(self, key: int) -> None:
        """Take the mark of a session of the user's away."""
        with self._free:
            # A session that began before the wrappers were there ends under a key that nobody has seen.
            self._users.discard(key if key in self._users else _UNKNOWN)
            self.user_ended_s = time.monotonic()

    def exit(self) -> None:
        """End our window, for good, before the interpreter and Kineto's statics go."""
        self._exiting = True
        if not self._take_back(EXIT_TIMEOUT_S) and self.mute is not None:
            self.mute()
        if self.user_ended_s:
            teardown.settle_at_exit()

    def found_running(self) -> None:
        """Mark a session that the user had begun before the wrappers were installed."""
        if _python_flag():
            self._users.add(_UNKNOWN)

    def after_fork(self) -> None:
        """In a forked child: the threads are gone, so nothing may wait for them, and no window is opened again."""
        self._free = threading.Condition()
        self.wanted = threading.Event()
        self._wakers = []
        self._owner = ""
        self._forked = True
        if self.mute is not None:
            guard.call("session.forked", self.mute, default=None)
            self.mute = None
        if self._used:
            guard.call("session.leave", leave_without_destructors, default=None)

    def _take_back(self, timeout_s: float) -> bool:
        with self._free:
            if not self._owner:
                return True
            if not self._exiting:
                self.yielded += 1
            self.wanted.set()
            for waker in tuple(self._wakers):
                guard.call("session.waker", waker, default=None)
            return self._free.wait_for(lambda: not self._owner, timeout_s)


session = ProfilerSession()
"""The one of this process."""

_installed: list[tuple[type, str, Any]] = []
_hooked = threading.Event()


def install() -> bool:
    """Wrap the begin and the end of the user's sessions; idempotent. False while torch is not imported.

    The classes are wrapped, not the functions below them: `torch.profiler`, schedules and the context managers of
    `torch.autograd.profiler` all pass through these methods, from 2.4 to 2.14.
    """
    torch = loaded_torch()
    if torch is None:
        return False
    if not _installed:
        _hook_process()
        profiler = torch.autograd.profiler
        for owner, name, wrap in (
            (profiler.profile, "_prepare_trace", _beginning),
            (profiler.profile, "_start_trace", _beginning),
            (profiler.profile, "__exit__", _ending),
            (profiler.emit_nvtx, "__enter__", _beginning_if_enabled),
            (profiler.emit_nvtx, "__exit__", _ending),
            (profiler.emit_itt, "__enter__", _beginning_if_enabled),
            (profiler.emit_itt, "__exit__", _ending),
        ):
            original = getattr(owner, name)
            setattr(owner, name, wrap(original))
            _installed.append((owner, name, original))
        session.found_running()
    return True


def uninstall() -> None:
    """Take the wrappers off again, where nobody has wrapped them meanwhile."""
    while _installed:
        owner, name, original = _installed.pop()
        if getattr(getattr(owner, name), "__wrapped__", None) is original:
            setattr(owner, name, original)


def unguarded() -> str:
    """Why the user's sessions cannot be seen in this torch, or ""."""
    torch = loaded_torch()
    profile = getattr(getattr(getattr(torch, "autograd", None), "profiler", None), "profile", None)
    for name in ("_prepare_trace", "_start_trace", "__exit__"):
        if not hasattr(profile, name):
            return (
                f"torch.autograd.profiler.profile.{name} is missing in this torch: your own sessions would not be seen"
            )
    return ""


def _hook_process() -> None:
    if not _hooked.is_set():
        _hooked.set()
        atexit.register(guard.call, "session.exit", session.exit, default=None)
        os.register_at_fork(after_in_child=session.after_fork)


def leave_without_destructors() -> None:
    """Have this forked child leave by `_exit` once Python has finished, as `multiprocessing` has its children do.

    Kineto's first session starts a thread in the parent. A child has the object of that thread but not the thread, and
    the destructor that joins it aborts the child, or hangs it for good. The process's own streams are flushed first.
    """
    libc = ctypes.CDLL(None)
    for function in (libc._exit, libc.fcloseall):  # called in the reverse order, the first with the exit status
        libc.on_exit(ctypes.cast(function, ctypes.c_void_p), None)


def _python_flag() -> bool:
    torch = loaded_torch()
    return bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", False)) if torch is not None else False


def _beginning(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard.call("session.begin", session.user_begins, id(self), default=None)
        # Where the original raises, the mark stays: what it left behind in Kineto is not known.
        return original(self, *args, **kwargs)

    return begin


def _beginning_if_enabled(original: Callable[..., Any]) -> Callable[..., Any]:
    begin = _beginning(original)

    @functools.wraps(original)
    def enter(self: Any, *args: Any, **kwargs: Any) -> Any:
        return begin(self, *args, **kwargs) if getattr(self, "enabled", True) else original(self, *args, **kwargs)

    return enter


def _ending(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def end(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        finally:
            guard.call("session.end", session.user_ends, id(self), default=None)

    return end
