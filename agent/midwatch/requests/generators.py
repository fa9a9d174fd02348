"""Requests around generators. The request is the current one only while the generator's own code runs: between two
values the context belongs to whoever iterates, and may be another one at every step.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from midwatch.guard import guard
from midwatch.requests.tracker import Mark, Tracker, installed, safe_end, status_of


def drive(inner: Generator[Any, Any, Any], route: str) -> Generator[Any, Any, Any]:
    """Yield what ``inner`` yields, pass on what is sent and thrown, and return what it returns, inside one request."""
    tracker, mark = _begin(route, is_async=False)
    status = "ok"
    try:
        with _current(tracker, mark):
            value = next(inner)
        while True:
            try:
                sent = yield value
            except GeneratorExit:  # noqa: PERF203 - what is thrown in belongs to this very step
                with _current(tracker, mark):
                    inner.close()
                raise
            except BaseException as error:
                with _current(tracker, mark):
                    value = inner.throw(error)
            else:
                with _current(tracker, mark):
                    value = inner.send(sent)
    except StopIteration as stop:
        return stop.value
    except BaseException as error:
        status = status_of(type(error))
        raise
    finally:
        _end(tracker, mark, status)


async def drive_async(inner: AsyncGenerator[Any, Any], route: str) -> AsyncGenerator[Any, Any]:
    """Do the same for an asynchronous generator."""
    tracker, mark = _begin(route, is_async=True)
    status = "ok"
    try:
        with _current(tracker, mark):
            value = await inner.__anext__()
        while True:
            try:
                sent = yield value
            except GeneratorExit:  # noqa: PERF203 - what is thrown in belongs to this very step
                with _current(tracker, mark):
                    await inner.aclose()
                raise
            except BaseException as error:
                with _current(tracker, mark):
                    value = await inner.athrow(error)
            else:
                with _current(tracker, mark):
                    value = await inner.asend(sent)
    except StopAsyncIteration:
        return
    except BaseException as error:
        status = status_of(type(error))
        raise
    finally:
        _end(tracker, mark, status)


def _begin(route: str, *, is_async: bool) -> tuple[Tracker | None, Mark | None]:
    tracker = installed()
    if tracker is None:
        return None, None
    try:
        return tracker, tracker.begin(route, is_async=is_async, bind=False)
    except Exception as error:
        guard.failed("request.begin", error)
        return None, None


def _end(tracker: Tracker | None, mark: Mark | None, status: str) -> None:
    if tracker is not None and mark is not None:
        safe_end(tracker, mark, status)


@contextmanager
def _current(tracker: Tracker | None, mark: Mark | None) -> Iterator[None]:
    if tracker is None or mark is None:
        yield
        return
    token = tracker.bind(mark)
    try:
        yield
    finally:
        tracker.unbind(token)
