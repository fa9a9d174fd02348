"""What the companion does where nothing can be sent: it says why, and counts what it lets go."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from midwatch.companion.loop import CALM_S
from midwatch.link.frames import Frame


class Nowhere:
    """Stands where `Upstream` would."""

    def __init__(self, reason: str, to_agent: Callable[[Frame], str]) -> None:
        self._reason = reason
        self._to_agent = to_agent
        self._lost = 0
        self._said = -1

    def start(self, rouse: Callable[[], None]) -> None:
        """Nothing to start."""

    def handle(self, frame: Frame) -> None:
        """Let a frame go, and remove the files that it names from the tmpfs."""
        if frame.get("t") == "hello":
            return
        self._lost += 1
        for key in ("trace_path", "tracks_path"):
            if frame.get(key):
                with contextlib.suppress(OSError):
                    Path(frame[key]).unlink()

    def tick(self) -> float:
        """Say why, and how much was lost by now."""
        # Doubling, so that the socket carries a few such frames in all and not one a second.
        if self._said < 0 or self._lost >= 2 * max(self._said, 1):
            detail = f"{self._reason}; {self._lost} frames dropped" if self._lost else self._reason
            if not self._to_agent({"t": "link", "connected": False, "detail": detail}):
                self._said = self._lost
        return CALM_S

    def ask_flush(self) -> None:
        """Nothing to flush."""

    def flushed(self) -> bool:
        """Return True: nothing is left to wait for."""
        return True

    def reading(self) -> bool:
        """Return False: windows are removed unread."""
        return False

    def close(self) -> None:
        """Nothing to close."""
