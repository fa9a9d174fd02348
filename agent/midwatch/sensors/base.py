"""What all sensors share: a state, and the rule that one which breaks goes off alone."""

from __future__ import annotations

from collections.abc import Callable

from midwatch.guard import guard
from midwatch.model.status import Part

_PATIENCE = 3
"""Looks in a row that may fail before a sensor is switched off."""


class Unavailable(Exception):  # noqa: N818 - it is no error
    """What a sensor needs is not there. The text is one sentence for people."""


class Sensor:
    """One sensor. Subclasses fill in `_open`, `_look` and `_close`; nothing that these raise gets further than here.

    ``name`` is how the status calls it; ``period_s`` how often it wants to be ticked, 0.0 for never.
    """

    name = ""
    period_s = 0.0

    def __init__(self) -> None:
        self._state = "off"
        self._detail = "not started"
        self._failures = 0

    def start(self) -> None:
        """Switch on, unless what it needs is missing."""
        if self._state == "on":
            return
        self._state, self._detail, self._failures = "on", "", 0
        self._attempt(self._open, patience=1)

    def stop(self) -> None:
        """Switch off. What was seen can still be asked for."""
        if self._state == "on":
            self._state, self._detail = "off", "stopped"
            guard.call(f"sensor.{self.name}.stop", self._close, default=None)

    def tick(self, now_ns: int) -> None:
        """Look, where it is on; ``now_ns`` is `Clock.perf_ns`."""
        if self._state == "on":
            self._attempt(self._look, now_ns, patience=_PATIENCE)

    def status(self) -> Part:
        """Return the state, with the reason in one line where it is not on."""
        return Part(self.name, self._state, self._detail)

    def _open(self) -> None:
        """Take what is needed. Raises `Unavailable` where it is not there."""

    def _look(self, now_ns: int) -> None:
        """Take a reading. Raises `Unavailable` where what is needed has gone."""

    def _close(self) -> None:
        """Give back what `_open` took. Also called after a failure."""

    def _attempt(self, work: Callable[..., None], *args: int, patience: int) -> None:
        try:
            work(*args)
            self._failures = 0
        except Unavailable as reason:
            self._give_up("unavailable", str(reason))
        except Exception as error:
            guard.failed(f"sensor.{self.name}", error)
            self._failures += 1
            if self._failures >= patience:
                self._give_up("failed", f"switched itself off after {type(error).__name__}: {error}"[:200])

    def _give_up(self, state: str, detail: str) -> None:
        self._state, self._detail = state, detail
        guard.call(f"sensor.{self.name}.close", self._close, default=None)
