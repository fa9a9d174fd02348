"""Callbacks for the moment after a module was imported, without importing anything ourselves."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from midwatch.guard import guard

Callback = Callable[[ModuleType], None]


class _Loader:
    """Wraps the real loader of one module: runs it, then the callbacks. The base classes of `importlib.abc` give
    nothing but their import time.
    """

    def __init__(self, loader: Any, done: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._done = done

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        # The module must not keep our loader: pickling, `inspect` and importlib.resources ask it for things.
        module.__loader__ = self._loader
        if spec is not None:
            spec.loader = self._loader
        self._loader.exec_module(module)
        self._done(module)


class ImportHooks:
    """Stands first on `sys.meta_path` while anything is waited for."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = {}
        self._looking = threading.local()
        self._lock = threading.Lock()

    def after(self, name: str, callback: Callback) -> None:
        """Have ``callback`` called once the module ``name`` is imported; at once where it is already."""
        with self._lock:
            module = _ready(name)
            if module is None:
                self._callbacks.setdefault(name, []).append(callback)
                if self not in sys.meta_path:
                    sys.meta_path.insert(0, self)
                return
        guard.call(f"import.{name}", callback, module, default=None)

    def poll(self) -> None:
        """See to modules that came past us: by another finder, or already half imported when `after` was called."""
        for name in list(self._callbacks):
            module = _ready(name)
            if module is not None:
                self._imported(module)

    def after_fork(self) -> None:
        """In a forked child: wait for nothing, and for no lock that a thread of the parent's held."""
        self._lock = threading.Lock()
        self.stop()

    def stop(self) -> None:
        """Wait for nothing any more."""
        with self._lock:
            self._callbacks.clear()
            self._leave()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module through all other finders, and wrap its loader."""
        if fullname not in self._callbacks or getattr(self._looking, "name", None) == fullname:
            return None
        self._looking.name = fullname
        try:
            spec = self._find_elsewhere(fullname, path, target)
        finally:
            self._looking.name = None
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self._imported)  # type: ignore[assignment]
        return spec

    def _find_elsewhere(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def _imported(self, module: ModuleType) -> None:
        with self._lock:
            callbacks = self._callbacks.pop(module.__name__, ())
            if not self._callbacks:
                self._leave()
        for callback in callbacks:
            guard.call(f"import.{module.__name__}", callback, module, default=None)

    def _leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _ready(name: str) -> ModuleType | None:
    """Return the module, if it is imported to its end."""
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module
