"""Shared libraries, opened once a process: each `ctypes.CDLL` makes classes, in cycles that only a collection frees."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache

RESIDENT = os.RTLD_NOW | os.RTLD_NOLOAD
"""Only the copy that the process already runs, wherever it lies."""


@lru_cache(maxsize=16)
def opened(name: str, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """Return the library. Raises OSError where it does not load, and is asked anew the next time."""
    return ctypes.CDLL(name, mode=mode)
