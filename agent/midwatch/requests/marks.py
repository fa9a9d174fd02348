"""`midwatch.request`: a request boundary as a context manager, with or without await, and as a decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from midwatch.guard import guard
from midwatch.requests import generators
from midwatch.requests.tracker import Mark, installed, safe_end, status_of

F = TypeVar("F", bound=Callable[..., Any])


class RequestMark:
    """What `midwatch.request` returns. It may be entered again and again, by several threads or tasks at a time."""

    __slots__ = ("_begun", "_route")

    def __init__(self, route: str) -> None:
        self._route = route
        self._begun: dict[int, Mark] = {}

    def __enter__(self) -> RequestMark:  # noqa: PYI034 - Self needs Python 3.11
        """Begin the request."""
        tracker = installed()
        if tracker is not None:
            try:
                mark = tracker.begin(self._route)
                if mark is None:
                    mark = tracker.current()
                    if mark is not None and mark.request_id in self._begun:
                        mark.depth += 1
                else:
                    self._begun[mark.request_id] = mark
            except Exception as error:
                guard.failed("request.begin", error)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the request; an exception passes on."""
        if not self._begun:
            return
        tracker = installed()
        try:
            mark = self._mine(None if tracker is None else tracker.current())
            if mark is None or tracker is None:
                return
            if mark.depth:
                mark.depth -= 1
                return
            del self._begun[mark.request_id]
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

    def _mine(self, current: Mark | None) -> Mark | None:
        """Return the mark that this exit belongs to: the context's, if begun here."""
        if current is not None:
            return self._begun.get(current.request_id)
        # The context is another one than at the entry, as where a generator is closed by the event loop. With one
        # mark begun there is no doubt which one is meant.
        return next(iter(self._begun.values())) if len(self._begun) == 1 else None


def decorate(function: F, route: str) -> F:
    """Return ``function`` with a request around each call; a generator's lasts until it is exhausted or closed."""
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return generators.drive_async(function(*args, **kwargs), route)

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return generators.drive(function(*args, **kwargs), route)

    elif inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with RequestMark(route):
                return await function(*args, **kwargs)

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with RequestMark(route):
                return function(*args, **kwargs)

    return cast("F", wrapper)


class Steps:
    """`midwatch.step`: the stretch from one call to the next on a thread is a request of the route ``step``."""

    ROUTE = "step"

    def __init__(self) -> None:
        self._open: dict[int, Mark] = {}

    def step(self) -> None:
        """End this thread's step, and begin the next one."""
        tracker = installed()
        if tracker is None:
            return
        import threading

        ident = threading.get_ident()
        mark = self._open.pop(ident, None)
        if mark is not None:
            safe_end(tracker, mark, "ok")
        mark = tracker.begin(self.ROUTE)
        if mark is not None:
            self._open[ident] = mark
