"""What the watchdog and the sampler ask of the part that keeps the requests. All times are `Clock.perf_ns`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol


class InFlight(Protocol):
    """One request that has begun and not ended. Read without a lock, so every field is set before it is listed."""

    @property
    def request_id(self) -> int:
        """The number of the request, never used twice in one process."""
        ...

    @property
    def thread_ident(self) -> int:
        """`threading.get_ident` of the thread that entered it."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether it was entered in an event loop, whose thread then works for others too."""
        ...

    @property
    def start_ns(self) -> int:
        """When it began."""
        ...

    @property
    def deadline_ns(self) -> int:
        """When it becomes overdue; 0 where its route has no deadline (warm-up, new shapes)."""
        ...

    @property
    def open_end(self) -> bool:
        """Whether only the next one ends it, if there is one: a training step."""
        ...


class Tracker(Protocol):
    """The requests in flight and the threads that work for them."""

    shortest_ns: int
    """The shortest time that a request which begins now may take; 0 where none has a deadline."""

    def in_flight(self) -> Sequence[InFlight]:
        """Return a snapshot of the requests in flight, without waiting for a lock that a request may hold."""
        ...

    def wait_for_request(self, timeout_s: float | None) -> bool:
        """Block while nothing is in flight, at most ``timeout_s``; return whether something is.

        `wake` ends the wait early.
        """
        ...

    def forget(self, request_id: int) -> None:
        """Give up a request that nobody will end any more."""
        ...

    def wake(self) -> None:
        """Rouse whoever blocks in `wait_for_request`, as at the end of the agent."""
        ...

    def unit_threads(self) -> Collection[int]:
        """Return the idents of the threads that run units now or ran one lately."""
        ...
