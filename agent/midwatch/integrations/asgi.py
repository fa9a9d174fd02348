"""Requests of an ASGI application: from the call to the end of the response's body, streamed ones too."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from midwatch.guard import guard
from midwatch.requests.tracker import Mark, Tracker, installed, safe_end, status_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

KEY = "midwatch.request"
"""Key in the scope under which the open request's `Mark` lies, for the router to name it."""
_PENDING = "(unrouted)"
_TRACEPARENT = re.compile(rb"^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_SERVER_ERROR = 500
_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"})
_OTHER_METHOD = "_OTHER"
"""OpenTelemetry's word for it. A client may send any word as its method: that is a value, and has no end."""


def marked(original: Any) -> Any:
    """Return an application's ``__call__`` with a request around it. One coroutine: each is felt in every request."""

    @functools.wraps(original)
    async def call(self: Any, scope: Scope, receive: Receive, send: Send) -> None:
        sender = begin(scope, send)
        if sender is None:
            await original(self, scope, receive, send)
            return
        try:
            await original(self, scope, receive, sender)
        except BaseException as error:
            sender.end(status_of(type(error)))
            raise
        sender.end()

    return call


class MidwatchMiddleware:
    """Marks each HTTP request; for a framework that Midwatch does not know: ``app = MidwatchMiddleware(app)``."""

    def __init__(self, app: App) -> None:
        self.app = app

    @marked
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        await self.app(scope, receive, send)


def begin(scope: Scope, send: Send) -> Sender | None:
    """Begin the request of this scope; None where it is no HTTP request, or part of one that is open."""
    tracker = installed()
    if tracker is None or scope.get("type") != "http":
        return None
    try:
        mark = tracker.begin(_PENDING, is_async=True)
        if mark is None:
            return None
        scope[KEY] = mark
        sender = Sender(tracker, mark, scope, send)
        for header, value in scope.get("headers", ()):
            if header == b"traceparent":
                found = _TRACEPARENT.match(value)
                if found:
                    mark.details.trace_id = found[1].decode()
                break
    except Exception as error:
        guard.failed("asgi.begin", error)
        return None
    return sender


def name(scope: Scope, template: str) -> None:
    """Set the route of the request of this scope: the method and the path's template, never the path itself."""
    tracker, mark = installed(), scope.get(KEY)
    if tracker is not None and mark is not None and not mark.end_ns:
        method = scope.get("method", "")
        tracker.rename(mark, f"{method if method in _METHODS else _OTHER_METHOD} {template}".strip())


class Sender:
    """The application's ``send``, watched for the status and the end of the body.

    Whoever made the scope often holds ``send`` too: nothing in the scope may hold this, or it would be a cycle.
    """

    __slots__ = ("_code", "_mark", "_scope", "_send", "_tracker")

    def __init__(self, tracker: Tracker, mark: Mark, scope: Scope, send: Send) -> None:
        self._tracker = tracker
        self._mark = mark
        self._scope = scope
        self._send = send
        self._code = 0

    def __call__(self, message: Message) -> Awaitable[None]:
        """Send a message of the response."""
        kind = message.get("type")
        if kind == "http.response.start":
            self._code = message.get("status", 0)
        elif kind == "http.response.body" and not message.get("more_body", False):
            return self._last(message)
        return self._send(message)

    async def _last(self, message: Message) -> None:
        await self._send(message)
        self.end()

    def end(self, status: str = "") -> None:
        """End the request; only the first end counts."""
        mark = self._mark
        if mark.end_ns:
            return
        if mark.route.name == _PENDING:
            guard.call("asgi.name", _name_late, self._scope, default=None)
        safe_end(self._tracker, mark, status or ("error" if self._code >= _SERVER_ERROR else "ok"))


def _name_late(scope: Scope) -> None:
    """Name a request that no router of ours has named: by what the framework left in the scope."""
    route = scope.get("route")
    template = getattr(route, "path_format", None) or getattr(route, "path", None)
    if not isinstance(template, str):
        template = getattr(scope.get("endpoint"), "__qualname__", "")
    name(scope, template or "(no route)")
