"""The direct engine: stop and save through the C++ symbols, without the GIL, so that requests run on meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from midwatch.capture.latch import Latch
from midwatch.capture.shim import Shim, Stopped
from midwatch.capture.window import Window, WindowEngine

_LONGEST_S = 1.0
"""The longest window that was measured under load."""


class DirectEngine(WindowEngine):
    """Light windows record CUDA activities alone, so nothing is installed in the service's threads.

    Deep ones add operators of all threads with shapes. Without CUDA all windows record operators.
    """

    name = "direct"
    harmless_in_capture = True

    def __init__(self, latch: Latch, reasons: Callable[[bool], str], *, spacing_s: float = 1.0) -> None:
        super().__init__(latch, reasons, spacing_s=spacing_s)
        self._shim: Shim | None = None

    def longest_s(self, *, deep: bool = False) -> float:  # noqa: ARG002  # the other engine's depends on it
        """One second: nothing waits for stop and save, but longer windows were not tried."""
        return _LONGEST_S

    def _stop(self, window: Window) -> Stopped:  # noqa: ARG002
        return self._symbols().stop()

    def _empty(self, handle: Stopped) -> bool:
        return handle.empty

    def _save(self, handle: Stopped, path: str) -> None:
        self._symbols().save(handle, path)

    def _free(self, handle: Stopped) -> None:
        self._symbols().free(handle)

    def _symbols(self) -> Shim:
        if self._shim is None:
            self._shim = Shim()
        return self._shim
