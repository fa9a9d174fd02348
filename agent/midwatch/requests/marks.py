"""`midwatch.request`: a request boundary as a context manager, with or without await, and as a decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from midwatch.guard import guard
from midwatch.requests.tracker import Mark, Tracker, installed, safe_end, status_of

F = TypeVar("F", bound=Callable[..., Any])


class RequestMark:
    """What `midwatch.request` returns. It may be entered again and again, by several threads or tasks at a time."""

    __slots__ = ("_route",)

    def __init__(self, route: str) -> None:
        self._route = route

    def __enter__(self) -> RequestMark:  # noqa: PYI034 - Self needs Python 3.11
        """Begin the request."""
        tracker = installed()
        if tracker is not None:
            try:
                mark = tracker.begin(self._route)
                if mark is not None:
                    mark.owner = self
                else:
                    mark = tracker.current()
                    if mark is not None and mark.owner is self:
                        mark.depth += 1
            except Exception as error:
                guard.failed("request.begin", error)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the request; an exception passes on."""
        tracker = installed()
        if tracker is None:
            return
        try:
            mark = tracker.current() or self._only(tracker)
            if mark is None or mark.owner is not self:
                return
            if mark.depth:
                mark.depth -= 1
                return
            mark.owner = None
            tracker.end(mark, "ok" if error_type is None else status_of(error_type))
        except Exception as problem:
            guard.failed("request.end", problem)

    async def __aenter__(self) -> RequestMark:  # noqa: PYI034 - Self needs Python 3.11
        """Begin the request in a coroutine."""
        return self.__enter__()

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the request in a coroutine."""
        self.__exit__(error_type, error, trace)

    def __call__(self, function: F) -> F:
        """Decorate ``function``: a plain or an asynchronous one, or a generator of either kind."""
        return decorate(function, self._route)

    def _only(self, tracker: Tracker) -> Mark | None:
        """Return the one mark that was begun here and not ended; None where there are several.

        For an exit in another context than the entry, as where a generator is closed by the event loop: with one
        mark there is no doubt which one is meant.
        """
        mine = [mark for mark in tracker.in_flight() if mark.owner is self]
        return mine[0] if len(mine) == 1 else None


class _OneCall:
    """The request around one call. It knows its mark, so it also ends in another context than that of its begin."""

    __slots__ = ("_mark", "_route", "_tracker")

    def __init__(self, route: str) -> None:
        self._route = route
        self._tracker = installed()
        self._mark: Mark | None = None

    def __enter__(self) -> None:
        if self._tracker is not None:
            try:
                self._mark = self._tracker.begin(self._route)
            except Exception as error:
                guard.failed("request.begin", error)

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tracker is not None and self._mark is not None:
            safe_end(self._tracker, self._mark, status_of(error_type))


def decorate(function: F, route: str) -> F:
    """Return ``function`` with a request around each call; a generator's lasts until it is exhausted or closed."""
    if inspect.isasyncgenfunction(function):
        from midwatch.requests import generators

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return generators.drive_async(function(*args, **kwargs), route)

    elif inspect.isgeneratorfunction(function):
        from midwatch.requests import generators

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return generators.drive(function(*args, **kwargs), route)

    elif inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with _OneCall(route):
                return await function(*args, **kwargs)

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with _OneCall(route):
                return function(*args, **kwargs)

    return cast("F", wrapper)
