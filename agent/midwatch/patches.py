"""How functions and methods of others are wrapped, and set free again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Patches:
    """Functions that were replaced, to be put back."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []

    def wrap(self, owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        """Replace ``owner.name`` by what ``wrapper`` makes of it."""
        original = getattr(owner, name)
        replacement = wrapper(original)
        setattr(owner, name, replacement)
        self._done.append((owner, name, original, replacement))

    def undo(self) -> None:
        """Put back what nobody else has replaced meanwhile."""
        while self._done:
            owner, name, original, replacement = self._done.pop()
            if getattr(owner, name) is replacement:
                setattr(owner, name, original)

    def __bool__(self) -> bool:
        return bool(self._done)
