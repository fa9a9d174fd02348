"""The guard: whatever goes wrong in the agent stays in the agent, but it does not go unnoticed.

Every entry from the host (a mark, a hook, a callback) and every turn of the agent's threads runs under it. It swallows
`Exception` only: `KeyboardInterrupt` and `SystemExit` belong to the host.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

logger = logging.getLogger("midwatch")

T = TypeVar("T")

_LOG_EVERY_S = 60.0


class Guard:
    """Counts errors by place and logs each place at most once a minute, on the logger ``midwatch``."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        # Re-entrant: an allocation under it may start a collection, and that run a hook of ours that fails.
        self._lock = threading.RLock()
        self._counts: dict[str, int] = {}
        self._logged_s: dict[str, float] = {}
        self.witness: Callable[[str, Exception], None] | None = None
        """Called with the place and each swallowed error; tests set it, and may raise from it."""

    def failed(self, place: str, error: Exception) -> None:
        """Note that ``error`` was caught at ``place``, a short name such as ``tracker.end``."""
        try:  # noqa: SIM105 - to suppress it takes the stack that there is none of
            self._note(place, error)
        except RecursionError:
            pass  # the host's stack is full, and what is raised here would come out where it only marks a request
        if self.witness is not None:
            self.witness(place, error)

    def _note(self, place: str, error: Exception) -> None:
        with self._lock:
            self._counts[place] = self._counts.get(place, 0) + 1
            now_s = self._now_s()
            due = now_s - self._logged_s.get(place, -_LOG_EVERY_S) >= _LOG_EVERY_S
            if due:
                self._logged_s[place] = now_s
        if due:
            # What a handler of the host's raises would come out where the host logs nothing.
            with suppress(Exception):
                logger.warning("midwatch: an error of its own in %s was swallowed: %r", place, error, exc_info=error)

    def call(self, place: str, function: Callable[..., T], *args: Any, default: T) -> T:
        """Return ``function(*args)``, or ``default`` where it raised."""
        try:
            return function(*args)
        except Exception as error:
            self.failed(place, error)
            return default

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Run a block under the guard. For places that run seldom: it costs a few microseconds."""
        try:
            yield
        except Exception as error:
            self.failed(place, error)

    def counts(self) -> tuple[tuple[str, int], ...]:
        """Return how many errors were swallowed at each place since the start."""
        with self._lock:
            return tuple(sorted(self._counts.copy().items()))

    def after_fork(self) -> None:
        """In a forked child: nobody is left who could release the lock."""
        self._lock = threading.RLock()


guard = Guard()
"""The one guard of the process."""
