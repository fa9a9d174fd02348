"""What every integration offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from midwatch.integrations.imports import ImportHooks

if TYPE_CHECKING:
    from midwatch.model.status import Part


class Integration(Protocol):
    """Marks the requests of one framework by itself."""

    name: str

    def start(self, hooks: ImportHooks) -> None:
        """Attach to the framework now or as soon as the service imports it; imports nothing itself."""
        ...

    def stop(self) -> None:
        """Leave the framework as it was."""
        ...

    def status(self) -> Part:
        """Say whether it is attached."""
        ...
