"""Starlette, and FastAPI, which is built on it: every application's requests, by the template of their route."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING, Any

from midwatch.guard import guard
from midwatch.integrations.imports import ImportHooks
from midwatch.patches import Patches

if TYPE_CHECKING:
    from midwatch.integrations import asgi
    from midwatch.model.status import Part

_PREFIX = "midwatch.prefix"


class StarletteIntegration:
    """Wraps `Starlette.__call__`, where a request begins, and the routes, which know the template."""

    name = "starlette"

    def __init__(self) -> None:
        self._patches = Patches()

    def start(self, hooks: ImportHooks) -> None:
        """Attach once Starlette is imported."""
        hooks.after("starlette.applications", self._applications)
        hooks.after("starlette.routing", self._routing)

    def stop(self) -> None:
        """Leave Starlette as it was."""
        self._patches.undo()

    def status(self) -> Part:
        """Say whether Starlette is there."""
        from midwatch.model.status import Part

        if self._patches:
            return Part("integration.starlette", "on", "marks the requests of Starlette and FastAPI applications")
        return Part("integration.starlette", "off", "starlette is not imported")

    def _applications(self, module: ModuleType) -> None:
        self._patches.wrap(module.Starlette, "__call__", _application)

    def _routing(self, module: ModuleType) -> None:
        self._patches.wrap(module.Route, "handle", _route)
        self._patches.wrap(module.Mount, "handle", _mount)


def _application(original: Any) -> Any:
    from midwatch.integrations import asgi  # not before there is a Starlette

    @functools.wraps(original)
    async def call(self: Any, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        await asgi.serve(functools.partial(original, self), scope, receive, send)

    return call


def _route(original: Any) -> Any:
    @functools.wraps(original)
    async def handle(self: Any, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        guard.call("starlette.route", _name, self, scope, default=None)
        await original(self, scope, receive, send)

    return handle


def _mount(original: Any) -> Any:
    @functools.wraps(original)
    async def handle(self: Any, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        scope[_PREFIX] = f"{scope.get(_PREFIX, '')}{getattr(self, 'path', '')}"
        await original(self, scope, receive, send)

    return handle


def _name(route: Any, scope: asgi.Scope) -> None:
    from midwatch.integrations import asgi

    call = scope.get(asgi.KEY)
    if call is not None:
        call.name(f"{scope.get(_PREFIX, '')}{getattr(route, 'path_format', route.path)}")
