"""What every capture engine offers. All calls are made on the profiler thread, and only there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from midwatch.shortage import remedy


class EngineError(Exception):
    """A window could not be opened or closed; the text is one sentence for people."""


class TraceUnwritten(EngineError):  # noqa: N818  # no fault of the engine's
    """The disk did not take the trace of a window."""


def unwritten(folder: str | Path, error: OSError) -> TraceUnwritten:
    """Say that ``folder`` did not take the trace or what belongs to it, why, and what to do."""
    what_to_do = remedy(error, "set MIDWATCH_TRACE_DIR to a folder that can be written and has room")
    return TraceUnwritten(f"{folder} took no trace ({error.strerror}): {what_to_do}")


class EngineRefused(EngineError):  # noqa: N818  # refusing is not failing
    """A window must not be opened now: a profiler of the user's is at work, the last window was just now, …"""


@dataclass(frozen=True, slots=True)
class WindowResult:
    """What stop and save gave.

    ``start_unix_ns`` and ``end_unix_ns`` bound the recording. ``empty`` is True where Kineto gave no result at all;
    then no file was written.
    """

    start_unix_ns: int
    end_unix_ns: int
    stop_ms: float
    trace_bytes: int
    empty: bool


class Engine(Protocol):
    """One way to open a profiler window.

    While a window is open the profiler thread waits on `midwatch.capture.session.session.wanted`, or is woken through
    `session.on_wanted`, and then calls `abort` at once: the service waits to profile itself, or to exit.
    """

    name: str
    """``direct`` or ``capped``."""
    broken: str
    """What the engine did that nobody should try again in this process, in one sentence; "" where nothing."""

    def unavailable(self, *, deep: bool = False) -> str:
        """Return "" where the engine works here, or why not in one sentence. Cheap; never imports torch."""
        ...

    def warning(self) -> str:
        """Return what is amiss although windows open, in one sentence with the remedy, or ""."""
        ...

    def longest_s(self, *, deep: bool = False) -> float:
        """Return how long a window may be, in seconds, so that its end stays inside the engine's budget."""
        ...

    def open(self, *, deep: bool, edge: Callable[[], None] | None = None) -> None:
        """Take the session lock, prepare, warm up and start recording. Raises `EngineRefused` or `EngineError`.

        ``edge`` is called once, when all is ready and just before recording starts: it returns at an edge between
        requests, after at most 50 ms, so that the first request in the window is a whole one.
        """
        ...

    def close(self, path: str) -> WindowResult:
        """Stop recording and save the trace to ``path``, then release the lock. Raises `EngineError`.

        However it ends, the session is over and the lock free.
        """
        ...

    def abort(self) -> None:
        """End a session without saving, at exit or before a session of the user's. Does nothing where none is open."""
        ...
