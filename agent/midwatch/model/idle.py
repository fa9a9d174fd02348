"""Stacks that explain nothing: a thread that waits for work, or for another thread to finish some.

Pure functions on the frames of a sample, innermost first. The agent uses them to know where else to look, the
diagnosis to drop what is no cause.
"""

from __future__ import annotations

from midwatch.model.site import Frame

_WAITS: dict[str, dict[str, str]] = {
    "asyncio.windows_events": {"select": "events"},
    "concurrent.futures.thread": {"_worker": "work"},
    "grpc._server": {"_serve": "events"},
    "multiprocessing.connection": {"_recv": "process", "accept": "connection", "wait": "process"},
    "queue": {"get": "work", "put": "work"},
    "selectors": {"select": "events"},
    "socket": {"accept": "connection"},
    "threading": {
        "_wait": "thread",
        "_wait_for_tstate_lock": "thread",
        "join": "thread",
        "wait": "thread",
        "wait_for": "thread",
    },
}
"""By module and function of the innermost frame: what the thread waits for."""

_LOOP_CALLS = frozenset({"run_forever", "run_until_complete"})
"""An event loop written in C (uvloop) leaves no frame of its own while it sits in its poll."""


def waits_for(frames: tuple[Frame, ...]) -> str:
    """Return what an idle thread waits for: ``events work thread process connection``, or "" where it is not idle.

    A thread that waits for a lock is not idle (somebody holds the lock), nor is one that sleeps or reads a file or
    socket: those lines are causes. A thread that waits on a condition, an event, a queue or a future is idle: what
    keeps it waiting runs on another thread.
    """
    if not frames:
        return ""
    top = frames[0]
    function = top.function.rpartition(".")[2]
    if top.callee in _LOOP_CALLS and function not in _LOOP_CALLS:
        return "events"
    return _WAITS.get(top.module, {}).get(function, "")


def is_idle(frames: tuple[Frame, ...]) -> bool:
    """Return whether the innermost of ``frames`` only waits for work or for another thread."""
    return bool(waits_for(frames))
