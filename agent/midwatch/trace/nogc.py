"""Reading a trace without the collector of cycles in between."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_gc() -> Iterator[None]:
    """Keep the garbage collector from running meanwhile.

    Reading makes millions of small objects and no cycle: looking through them again and again would take a fifth of
    the time of a large trace and find nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
