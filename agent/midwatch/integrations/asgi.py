"""Requests of an ASGI application: from the call to the end of the response's body, streamed ones too."""

from __future__ import annotations

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

KEY = "midwatch.call"
"""Key in the scope under which the open `Call` lies, for the router to name it."""
_PENDING = "(unrouted)"
_TRACEPARENT = re.compile(rb"^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_SERVER_ERROR = 500
_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"})
_OTHER_METHOD = "_OTHER"
"""OpenTelemetry's word for it. A client may send any word as its method: that is a value, and has no end."""


class MidwatchMiddleware:
    """Marks each HTTP request; for a framework that Midwatch does not know: ``app = MidwatchMiddleware(app)``."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        await serve(self.app, scope, receive, send)


async def serve(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Call ``app`` with a request around it."""
    tracker = installed()
    call = None
    if tracker is not None and scope.get("type") == "http":
        call = guard.call("asgi.begin", _begin, tracker, scope, default=None)
    if call is None:
        await app(scope, receive, send)
        return
    try:
        await app(scope, receive, call.sender(send))
    except BaseException as error:
        call.end(status_of(type(error)))
        raise
    call.end()


class Call:
    """One HTTP request on its way."""

    def __init__(self, tracker: Tracker, mark: Mark, scope: Scope) -> None:
        self._tracker = tracker
        self._mark = mark
        self._scope: Scope | None = scope
        method = scope.get("method", "")
        self._method = method if method in _METHODS else _OTHER_METHOD
        self._code = 0
        self._named = False

    def sender(self, send: Send) -> Send:
        """Return ``send``, watched for the status and the end of the body."""

        async def watched(message: Message) -> None:
            await send(message)
            kind = message.get("type")
            if kind == "http.response.start":
                self._code = message.get("status", 0)
            elif kind == "http.response.body" and not message.get("more_body", False):
                self.end()

        return watched

    def name(self, template: str) -> None:
        """Set the route: the method and the path's template, never the path itself."""
        self._named = True
        self._tracker.rename(self._mark, f"{self._method} {template}".strip())

    def end(self, status: str = "") -> None:
        """End the request; only the first end counts."""
        if self._mark.end_ns:
            return
        scope, self._scope = (
            self._scope,
            None,
        )  # the scope holds this call: with all that it carries it would be a cycle
        if not self._named and scope is not None:
            guard.call("asgi.name", self._name_late, scope, default=None)
        safe_end(self._tracker, self._mark, status or ("error" if self._code >= _SERVER_ERROR else "ok"))

    def _name_late(self, scope: Scope) -> None:
        """Name a request that no router of ours has named: by what the framework left in the scope."""
        route = scope.get("route")
        template = getattr(route, "path_format", None) or getattr(route, "path", None)
        if not isinstance(template, str):
            template = getattr(scope.get("endpoint"), "__qualname__", "")
        self.name(template or "(no route)")


def _begin(tracker: Tracker, scope: Scope) -> Call | None:
    mark = tracker.begin(_PENDING, is_async=True)
    if mark is None:
        return None
    for name, value in scope.get("headers", ()):
        if name == b"traceparent":
            found = _TRACEPARENT.match(value)
            if found:
                mark.details.trace_id = found[1].decode()
            break
    call = Call(tracker, mark, scope)
    scope[KEY] = call
    return call
