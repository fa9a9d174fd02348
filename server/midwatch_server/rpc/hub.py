"""Tells waiting calls what was committed. Lives on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from midwatch_server.errors import StoreUnavailableError
from midwatch_server.store import Stored

if TYPE_CHECKING:
    from typing_extensions import Self

BACKLOG = 1_000


class Subscription:
    """News for one waiting call; a context manager."""

    def __init__(self, hub: Hub, wanted: Callable[[Stored], bool]) -> None:
        self.wanted = wanted
        self._hub = hub
        self._queue: asyncio.Queue[Stored | None] = asyncio.Queue()

    def __enter__(self) -> Self:
        self._hub.subscriptions.add(self)
        if self._hub.closed:
            self._queue.put_nowait(None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hub.subscriptions.discard(self)

    def offer(self, stored: Stored | None) -> None:
        """Queue news; None is the end. A call that is this far behind is ended: it can ask for what it missed."""
        if self._queue.qsize() >= BACKLOG:
            self._hub.subscriptions.discard(self)
            stored = None
        self._queue.put_nowait(stored)

    async def next(self) -> Stored:
        """Wait for news. Raises `StoreUnavailableError` where there will be none."""
        stored = await self._queue.get()
        if stored is None:
            raise StoreUnavailableError("The collector is stopping, or this call reads too slowly; ask again.")
        return stored


class Hub:
    """Knows who waits for what."""

    def __init__(self) -> None:
        self.subscriptions: set[Subscription] = set()
        self.closed = False

    def subscribe(self, wanted: Callable[[Stored], bool]) -> Subscription:
        """Return a subscription to what ``wanted`` is true for; it begins where its ``with`` does."""
        return Subscription(self, wanted)

    def publish(self, stored: Stored) -> None:
        """Tell those who want it."""
        for subscription in list(self.subscriptions):
            if subscription.wanted(stored):
                subscription.offer(stored)

    def close(self) -> None:
        """End all waiting."""
        self.closed = True
        for subscription in list(self.subscriptions):
            subscription.offer(None)
