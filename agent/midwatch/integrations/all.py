"""All integrations, and the import hooks that they share."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from midwatch.guard import guard
from midwatch.integrations.base import Integration
from midwatch.integrations.imports import ImportHooks
from midwatch.integrations.starlette import StarletteIntegration

if TYPE_CHECKING:
    from midwatch.model.status import Part


class Integrations:
    """Starts and stops all but those that are switched off; one that fails switches off itself alone."""

    def __init__(self, hooks: ImportHooks, off: Collection[str] = ()) -> None:
        self._hooks = hooks
        self._off = frozenset(off)
        self._all: tuple[Integration, ...] = (StarletteIntegration(),)
        self._failed: set[str] = set()

    def start(self) -> None:
        """Attach to the frameworks that are imported, and to the others once they are."""
        for integration in self._all:
            if integration.name in self._off:
                continue
            try:
                integration.start(self._hooks)
            except Exception as error:
                self._failed.add(integration.name)
                guard.failed(f"integration.{integration.name}", error)

    def stop(self) -> None:
        """Leave all frameworks as they were."""
        for integration in reversed(self._all):
            guard.call(f"integration.{integration.name}", integration.stop, default=None)

    def status(self) -> list[Part]:
        """Return a part for each."""
        return [self._part(integration) for integration in self._all]

    def _part(self, integration: Integration) -> Part:
        from midwatch.model.status import Part

        name = f"integration.{integration.name}"
        if integration.name in self._off:
            return Part(name, "off", "switched off (integrations_off)")
        if integration.name in self._failed:
            return Part(name, "failed", "could not be attached; the log has the error")
        return integration.status()
