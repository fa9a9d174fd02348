"""Starlette, and FastAPI, which is built on it: every application's requests, by the template of their route."""

from __future__ import annotations

import functools
from collections.abc import Awaitable
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
        from midwatch.integrations import asgi  # not before there is a Starlette

        self._patches.wrap(module.Starlette, "__call__", asgi.marked)

    def _routing(self, module: ModuleType) -> None:
        self._patches.wrap(module.Route, "handle", _route)
        self._patches.wrap(module.Mount, "handle", _mount)


def _route(original: Any) -> Any:
    from midwatch.integrations import asgi

    @functools.wraps(original)
    def handle(self: Any, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> Awaitable[None]:
        try:
            if asgi.KEY in scope:
                asgi.name(scope, f"{scope.get(_PREFIX, '')}{getattr(self, 'path_format', self.path)}")
        except Exception as error:
            guard.failed("starlette.route", error)
        done: Awaitable[None] = original(self, scope, receive, send)
        return done

    return handle


def _mount(original: Any) -> Any:
    @functools.wraps(original)
    async def handle(self: Any, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        scope[_PREFIX] = f"{scope.get(_PREFIX, '')}{getattr(self, 'path', '')}"
        await original(self, scope, receive, send)

    return handle
