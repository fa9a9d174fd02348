"""Threads of the agent, and the order in which parts start and stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from midwatch.guard import guard


class Worker:
    """One named daemon thread that starts late and stops on request.

    ``body`` gets the stop event; it returns when that is set. Waits inside are waits on an event, never bare sleeps.
    """

    def __init__(self, name: str, body: Callable[[threading.Event], None]) -> None:
        self.name = name
        self._body = body
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, unless it runs already."""
        if self.alive:
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 1.0, wake: Callable[[], None] | None = None) -> bool:
        """Ask the thread to end, wait, and return whether it ended. ``wake`` rouses a body that waits elsewhere."""
        self._stop.set()
        if wake is not None:
            wake()
        thread = self._thread
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    def _run(self) -> None:
        with guard.at(f"thread.{self.name}"):
            self._body(self._stop)


class Startable(Protocol):
    """Something with a beginning and an end."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """End; may be called without a start, and twice."""
        ...


class Stack:
    """Parts that stop in the reverse of the order in which they started. A part that fails alone is left out."""

    def __init__(self) -> None:
        self._started: list[tuple[str, Callable[[], object]]] = []

    def start(self, name: str, part: Startable) -> bool:
        """Start ``part``; return False, and remember nothing, where that raised."""
        try:
            part.start()
        except Exception as error:
            guard.failed(f"start.{name}", error)
            return False
        self.on_stop(name, part.stop)
        return True

    def on_stop(self, name: str, stop: Callable[[], object]) -> None:
        """Have ``stop`` called in its turn."""
        self._started.append((name, stop))

    def stop(self) -> None:
        """Stop all, the latest first."""
        while self._started:
            name, stop = self._started.pop()
            with guard.at(f"stop.{name}"):
                stop()
