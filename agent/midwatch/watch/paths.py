"""Names of source files as they may leave the process: relative to the project or the package, never absolute."""

from __future__ import annotations

import os
import sys
from pathlib import PurePath

_NEVER_ROOTS = frozenset({"", "/", "/home", "/Users", "/var", "/mnt", "/media"})
_MAX_KNOWN = 4096
_MAX_LENGTH = 160


class Paths:
    """Shortens ``co_filename`` by the longest entry of `sys.path` that holds it, as Kineto does in its own traces.

    What no entry holds is named by its module (an editable install) or, last, by its bare file name (generated code).
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._roots: tuple[str, ...] = ()
        self._seen_path: tuple[str, ...] = ()

    def relative(self, filename: str, module: str = "") -> str:
        """Return the name of the file of code that belongs to ``module``."""
        key = (filename, module)
        known = self._known.get(key)
        if known is None:
            known = self._shorten(filename, module)[-_MAX_LENGTH:]
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = known
        return known

    def _shorten(self, filename: str, module: str) -> str:
        if filename.startswith("<"):
            return filename
        filename = os.path.normpath(filename)
        if not filename.startswith("/"):
            return filename if not filename.startswith("..") else os.path.basename(filename)  # noqa: PTH119
        for root in self._current_roots():
            if filename.startswith(root):
                return filename[len(root) :]
        tail = module.replace(".", "/")
        for end in (f"/{tail}.py", f"/{tail}/__init__.py"):
            if tail and filename.endswith(end):
                return end[1:]
        return PurePath(filename).name

    def _current_roots(self) -> tuple[str, ...]:
        """Return the folders that names are relative to, longest first, each with its final slash."""
        path = tuple(entry for entry in list(sys.path) if type(entry) is str)
        if path != self._seen_path or not self._roots:
            self._seen_path = path
            folders = {os.path.normpath(entry) for entry in (*path, _folder_of_main(), _cwd()) if entry.startswith("/")}
            home = os.path.expanduser("~")  # noqa: PTH111
            usable = (f for f in folders if f not in _NEVER_ROOTS and not home.startswith(f + os.sep))
            self._roots = tuple(f + os.sep for f in sorted(usable, key=len, reverse=True))
        return self._roots


def _cwd() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return ""


def _folder_of_main() -> str:
    """Return the folder of the main script, which is not in `sys.path` under ``python -P``."""
    main = sys.modules.get("__main__")
    file = vars(main).get("__file__") if main is not None else None
    return os.path.dirname(os.path.abspath(file)) if type(file) is str else ""  # noqa: PTH100, PTH120
