"""What all sensors share: a state, and the rule that one which breaks goes off alone, and comes back when it can."""

from __future__ import annotations

from collections.abc import Callable

from midwatch.guard import guard
from midwatch.model.status import Part
from midwatch.shortage import REMEDY, no_descriptor_left

SELDOM_S = 5.0
"""How often that is done which nobody waits for. Each kind of work comes upon a cold cache and cold page tables, on a
virtual machine upon pages that the host has put aside: a millisecond of somebody's request for what takes microseconds
in a loop.
"""
_PATIENCE = 3
"""Looks in a row that may fail before a sensor is switched off."""
_REST_NS = 10_000_000_000
_LONGEST_REST_NS = 600_000_000_000
"""A sensor that went off tries again after ten seconds, and after each try in vain it waits twice as long, up to this:
descriptors are free again, a driver is back, a package has been installed."""
_STEADY_NS = 60_000_000_000
"""After so long without a failure the next one counts as the first."""


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
        self._rest_ns = _REST_NS
        self._again_ns = 0
        """When to try again, 0 until the first tick after it went off."""
        self._steady_ns = 0
        """When it will have been on for long enough that its next failure is a new one."""

    def start(self) -> None:
        """Switch on, unless what it needs is missing."""
        if self._state == "on":
            return
        self._state, self._detail, self._failures, self._rest_ns = "on", "", 0, _REST_NS
        self._attempt(self._open, patience=1)

    def stop(self) -> None:
        """Switch off. What was seen can still be asked for."""
        before, self._state, self._detail = self._state, "off", "stopped"
        if before == "on":
            guard.call(f"sensor.{self.name}.stop", self._close, default=None)

    def tick(self, now_ns: int) -> None:
        """Look, where it is on, and try again from time to time where it went off; ``now_ns`` is `Clock.perf_ns`."""
        if self._state == "on":
            self._attempt(self._look, now_ns, patience=_PATIENCE)
            if self._state == "on" and now_ns >= self._steady_ns:
                self._rest_ns = _REST_NS
        elif self._state != "off":
            if not self._again_ns:
                self._again_ns = now_ns + self._rest_ns
                self._rest_ns = min(2 * self._rest_ns, _LONGEST_REST_NS)
            elif now_ns >= self._again_ns:
                self._attempt(self._reopen, now_ns, patience=1)

    def status(self) -> Part:
        """Return the state, with the reason in one line where it is not on."""
        return Part(self.name, self._state, self._detail)

    def _open(self) -> None:
        """Take what is needed. Raises `Unavailable` where it is not there."""

    def _look(self, now_ns: int) -> None:
        """Take a reading. Raises `Unavailable` where what is needed has gone."""

    def _close(self) -> None:
        """Give back what `_open` took. Also called after a failure."""

    def _reopen(self, now_ns: int) -> None:
        self._open()
        self._look(now_ns)
        self._state, self._detail = "on", ""
        self._steady_ns = now_ns + _STEADY_NS

    def _attempt(self, work: Callable[..., None], *args: int, patience: int) -> None:
        try:
            work(*args)
            self._failures = 0
        except Unavailable as reason:
            self._give_up("unavailable", str(reason))
        except Exception as error:
            if no_descriptor_left(error):
                self._give_up("unavailable", f"it could open no file: {REMEDY}; it tries again by itself")
                return
            detail = f"switched itself off after {type(error).__name__}: {error}"[:200]
            if detail != self._detail:  # a try in vain tells nothing new
                guard.failed(f"sensor.{self.name}", error)
            self._failures += 1
            if self._failures >= patience:
                self._give_up("failed", detail)

    def _give_up(self, state: str, detail: str) -> None:
        self._state, self._detail, self._again_ns, self._failures = state, detail, 0, 0
        guard.call(f"sensor.{self.name}.close", self._close, default=None)
