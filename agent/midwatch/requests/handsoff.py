"""Where torch takes no module with hooks: there ours are taken away for as long as the call lasts.

`torch.jit.script` compiles every hook that it finds, and `torch.cuda.make_graphed_callables` refuses modules that have
any. Both are called on models that have served before.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from midwatch.patches import Patches

WithoutHooks = Callable[[Iterable[Any]], AbstractContextManager[None]]

_TAKERS = (
    ("torch.jit._recursive", "create_script_module"),
    ("torch.cuda.graphs", "make_graphed_callables"),
    ("torch.cuda", "make_graphed_callables"),
)


class HandsOff:
    """Wraps those functions of torch."""

    def __init__(self, without_hooks: WithoutHooks) -> None:
        self._without_hooks = without_hooks
        self._patches = Patches()

    def start(self) -> None:
        """Wrap what this torch has of them."""
        for name, function in _TAKERS:
            module = sys.modules.get(name)
            if hasattr(module, function):
                self._patches.wrap(module, function, self._wrapped)

    def stop(self) -> None:
        """Put them back."""
        self._patches.undo()

    def _wrapped(self, original: Any) -> Any:
        @functools.wraps(original)
        def call(first: Any, *args: Any, **kwargs: Any) -> Any:
            with self._without_hooks(_modules(first)):
                return original(first, *args, **kwargs)

        return call


def _modules(first: Any) -> list[Any]:
    """Return all modules of a first argument, one callable or a tuple of them."""
    found: list[Any] = []
    for one in first if isinstance(first, (tuple, list)) else (first,):
        if hasattr(one, "_forward_hooks"):
            found += one.modules()
    return found
