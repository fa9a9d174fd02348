"""Whether a CUDA graph is being captured: light direct windows are harmless then, all others keep out of its way.

`torch.cuda.CUDAGraph.capture_begin` and `capture_end` are visible from Python in all versions, and everything in torch
that captures goes through them. A query of the stream would itself be illegal during a global capture.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from midwatch.capture.torchapi import loaded_torch
from midwatch.guard import guard

_BEGIN_WAITS_S = 2.0


class GraphWatch:
    """Counts captures in progress, and lets a capture wait while a window opens or closes (milliseconds)."""

    def __init__(self) -> None:
        self._capturing = 0
        self._held = False
        self._changed = threading.Condition()

    @property
    def capturing(self) -> bool:
        """Whether a capture is in progress on any thread."""
        return self._capturing > 0

    @contextmanager
    def quiet(self, timeout_s: float) -> Iterator[bool]:
        """Wait until nothing is being captured and keep it so inside the block; yields False where the time ran out."""
        with self._changed:
            calm = self._changed.wait_for(lambda: not self._capturing, timeout_s)
            self._held = calm
        try:
            yield calm
        finally:
            with self._changed:
                self._held = False
                self._changed.notify_all()

    def begins(self) -> None:
        """A capture begins. Waits, bounded, while a window opens or closes."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held, _BEGIN_WAITS_S)
            self._capturing += 1

    def ends(self) -> None:
        """A capture has ended, well or not."""
        with self._changed:
            self._capturing = max(0, self._capturing - 1)
            self._changed.notify_all()

    def after_fork(self) -> None:
        """In a forked child other threads' captures are gone, and a lock that they held would stay locked."""
        self._capturing = 0
        self._held = False
        self._changed = threading.Condition()


graphs = GraphWatch()
"""The one of this process."""

_installed: list[tuple[type, str, Any]] = []
_hooked = threading.Event()


def install(graph_class: type | None = None) -> bool:
    """Wrap ``torch.cuda.CUDAGraph``; idempotent. False where torch is not imported or has no such class."""
    torch = loaded_torch()
    found = graph_class if graph_class is not None else getattr(getattr(torch, "cuda", None), "CUDAGraph", None)
    if found is None or not hasattr(found, "capture_begin") or not hasattr(found, "capture_end"):
        return False
    if not _installed:
        _hook_process()
        for name, wrap in (("capture_begin", _beginning), ("capture_end", _ending)):
            original = getattr(found, name)
            setattr(found, name, wrap(original))
            _installed.append((found, name, original))
    return True


def uninstall() -> None:
    """Take the wrappers off again, where nobody has wrapped them meanwhile."""
    while _installed:
        owner, name, original = _installed.pop()
        if getattr(getattr(owner, name), "__wrapped__", None) is original:
            setattr(owner, name, original)


def _hook_process() -> None:
    if not _hooked.is_set():
        _hooked.set()
        os.register_at_fork(after_in_child=graphs.after_fork)


def _beginning(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard.call("graphs.begin", graphs.begins, default=None)
        try:
            return original(self, *args, **kwargs)
        except BaseException:
            guard.call("graphs.end", graphs.ends, default=None)
            raise

    return capture_begin


def _ending(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def capture_end(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        finally:
            guard.call("graphs.end", graphs.ends, default=None)

    return capture_end
