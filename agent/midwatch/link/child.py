"""The companion's process: started, looked after, replaced with growing delay, and let go."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from midwatch.clock import Clock
from midwatch.drops import drops
from midwatch.guard import guard, logger

_RESTART_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
_SETTLED_S = 30.0
"""A companion that lived this long counts as sound: the next restart is quick again."""
_LONGEST_END_S = 120.0
"""A companion that was told to end has an alarm before that."""


class Child:
    """At most one process at a time. No signal handler: a dead one is reaped by `tick`, which asks for it by its id."""

    def __init__(self, clock: Clock, spawn: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._clock = clock
        self._spawn = spawn
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths = 0
        self._born_ns = 0
        self._retry_ns = 0
        self._ended = False
        self.detail = ""
        """Where none runs: why, and when the next one starts."""

    @property
    def pid(self) -> int:
        """Its process id, 0 where none runs as far as is known."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else 0

    @property
    def starting(self) -> bool:
        """Whether the first one is on its way."""
        return self._process is None and not self.detail

    def start(self) -> bool:
        """Start it; return False where that failed, which counts as a death."""
        with self._lock:
            return self._start()

    def tick(self) -> bool:
        """Reap it if it died, and start the next one in its time. Return whether a new one was started."""
        with self._lock:
            now_ns = self._clock.perf_ns()
            if self._process is not None:
                code = self._process.poll()
                if code is None:
                    if now_ns - self._born_ns > _SETTLED_S * 1e9:
                        self._deaths = 0
                    return False
                self._process = None
                self._mourn(f"the companion ended with code {code}")
                return False
            return now_ns >= self._retry_ns and self._start()

    def end(self, grace_s: float) -> bool:
        """Wait ``grace_s`` for it to end by itself, and start no other. Return whether none runs any more.

        One that is not done by then goes on alone: to kill it would lose what it holds. A thread reaps it.
        """
        with self._lock:
            self._ended = True
            process, self._process = self._process, None
        if process is None:
            return True
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
            return True
        try:
            threading.Thread(target=_see_off, args=(process,), name="midwatch-see-off", daemon=True).start()
        except RuntimeError as error:
            # Where this process ends, nobody will ask how the child ended; without a code `subprocess` would complain
            # of that on the host's standard error. Where the service lives on and merely has no thread to give,
            # `subprocess` keeps a child without a code in mind, and reaps it when it starts another.
            if _exiting(error):
                process.returncode = 0
        return False

    def _start(self) -> bool:
        if self._ended:
            return False
        self._born_ns = self._clock.perf_ns()
        try:
            self._process = self._spawn()
        except OSError as error:
            self._mourn(f"the companion could not be started ({error.strerror or error})")
            return False
        self.detail = ""
        return True

    def _mourn(self, what: str) -> None:
        delay_s = _RESTART_S[min(self._deaths, len(_RESTART_S) - 1)]
        self._deaths += 1
        self._retry_ns = self._clock.perf_ns() + int(delay_s * 1e9)
        self.detail = f"{what}; the next start is {delay_s:.0f} s later"


def _exiting(error: RuntimeError) -> bool:
    """Whether no thread was started because this process ends. Functions that run at exit learn it from words alone."""
    return sys.is_finalizing() or "shutdown" in str(error)


def _see_off(process: subprocess.Popen[bytes]) -> None:
    """Reap a companion that ends by itself, and make one that does not. What one holds that is killed is lost."""
    with guard.at("link.see_off"):
        how = ""
        try:
            process.wait(_LONGEST_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            how = f"since it did not end within {_LONGEST_END_S:.0f} s"
        if process.returncode < 0:
            drops.drop("companion_killed")
            how = how or _signalled(-process.returncode)
            logger.warning("midwatch: the companion was killed %s, before it had handed over all that it held", how)


def _signalled(number: int) -> str:
    if number == signal.SIGALRM:  # of its own alarm, which it sets when it is told to end
        return "by its own limit, since it did not end in time"
    with contextlib.suppress(ValueError):
        return f"by somebody else ({signal.Signals(number).name})"
    return f"by somebody else (signal {number})"
