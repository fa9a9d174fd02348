"""Which torch this is: the one that is imported, or that an import would give. Imported at a service's start."""

from __future__ import annotations

import importlib.util
import os
import re
from typing import Any, NamedTuple


class TorchVersion(NamedTuple):
    """Versions as pairs of major and minor; ``cuda`` is (0, 0) and ``hip`` False in a build for the CPU."""

    text: str
    number: tuple[int, int]
    cuda: tuple[int, int] = (0, 0)
    hip: bool = False


def version_of(torch: Any) -> TorchVersion:
    """Versions of an imported torch."""
    text = str(torch.__version__)
    build = getattr(torch, "version", None)
    return TorchVersion(text, _pair(text), _pair(getattr(build, "cuda", None)), bool(getattr(build, "hip", None)))


def installed_version() -> TorchVersion | None:
    """Versions of the torch that an import would give, read from its files; None where there is none."""
    try:
        spec = importlib.util.find_spec("torch")
        if spec is None or not spec.origin:
            return None
        with open(os.path.join(os.path.dirname(spec.origin), "version.py"), encoding="utf-8") as file:  # noqa: PTH118, PTH120, PTH123
            source = file.read()
    except (ImportError, OSError, ValueError):
        return None
    found = dict(re.findall(r"^(__version__|cuda|hip)\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", source, re.MULTILINE))
    text = found.get("__version__", "")
    return TorchVersion(text, _pair(text), _pair(found.get("cuda")), "hip" in found) if text else None


def _pair(text: str | None) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text or "")
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)
