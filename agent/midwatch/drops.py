"""Every loss has a name: what the agent could not keep or send is counted by reason, and reported."""

from __future__ import annotations

import threading


class Drops:
    """Counts by reason since the start of the process."""

    def __init__(self) -> None:
        # Re-entrant, as the guard's: a collection may start under it, and run a finaliser that loses something.
        self._lock = threading.RLock()
        self._counts: dict[str, int] = {}

    def drop(self, reason: str, count: int = 1) -> None:
        """Count ``count`` lost things; ``reason`` is a short stable name such as ``link_full``."""
        with self._lock:
            self._counts[reason] = self._counts.get(reason, 0) + count

    def counts(self) -> tuple[tuple[str, int], ...]:
        """Return the counts, by name."""
        with self._lock:
            return tuple(sorted(self._counts.copy().items()))

    def after_fork(self) -> None:
        """In a forked child: nobody is left who could release the lock."""
        self._lock = threading.RLock()


drops = Drops()
"""The one count of the process."""
