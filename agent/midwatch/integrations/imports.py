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

    Who only looks for the module and never runs it (`pkgutil.get_data`, `importlib.util.find_spec`) keeps this one, so
    it answers as the real one does.
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
        guard.call("import.done", self._done, module, default=None)

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # asked by `copy` and `pickle` of an object that is not filled yet
            raise AttributeError(name)
        return getattr(self._loader, name)


class ImportHooks:
    """Stands first on `sys.meta_path` from the first module that is waited for until `stop`.

    It does not leave in between: another thread that is going through the list at that moment would miss the finder
    behind it, and not find its module.
    """

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = {}
        self._looking = threading.local()
        self._lock = threading.RLock()
        self._stopped = False

    def after(self, name: str, callback: Callback) -> None:
        """Have ``callback`` called once the module ``name`` is imported; at once where it is already.

        After `stop` it is never called.
        """
        with self._lock:
            module = _ready(name)
            if self._stopped:
                return
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
        self._lock = threading.RLock()
        self.stop()

    def stop(self) -> None:
        """Wait for nothing any more."""
        with self._lock:
            self._stopped = True
            self._callbacks.clear()
            if self in sys.meta_path:
                sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module through all other finders, and wrap its loader."""
        if fullname not in self._callbacks:
            return None
        looking: set[str] = self._looking.__dict__.setdefault("names", set())
        if fullname in looking:
            return None
        looking.add(fullname)
        try:
            spec = self._find_elsewhere(fullname, path, target)
        finally:
            looking.discard(fullname)
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
        for callback in callbacks:
            guard.call(f"import.{module.__name__}", callback, module, default=None)


def _ready(name: str) -> ModuleType | None:
    """Return the module, if it is imported to its end."""
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module
