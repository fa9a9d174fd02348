"""The catalogue: some hundred thousand items with their attributes, all Python objects."""

from __future__ import annotations

import gc

_ITEMS = 250_000
_TRIM_EVERY = 50


class Catalog:
    """Items by number, and a cache of what was looked up."""

    def __init__(self) -> None:
        self._items = {number: {"price": number % 1000, "tags": [number % 7, number % 11]} for number in range(_ITEMS)}
        self._looked_up: list[dict[str, object]] = []

    def item(self, number: int) -> dict[str, object]:
        """The item with this ``number``, as the client sees it."""
        found: dict[str, object] = {"number": number, **self._items[number % _ITEMS]}
        self._looked_up.append(found)
        if len(self._looked_up) >= _TRIM_EVERY:
            self._trim()
        return found

    def _trim(self) -> None:
        self._looked_up.clear()
        gc.collect()  # FAULT(trim_gc)
