"""The demo's processes: a collector, the service and the load, started in order and ended in reverse."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from midwatch_client.errors import Failure

SERVICE = "ranker"
_START_S = 60.0
_STOP_S = 8.0
_POLL_S = 0.1

# Run before the module itself: the kernel ends the process with the demo, however that ends (PR_SET_PDEATHSIG).
_WITH_THE_DEMO = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.executable, [sys.executable, "-m", *sys.argv[2:]])
"""


def free_port(wanted: int = 0) -> int:
    """``wanted`` if it is free on loopback, else any free port."""
    for port in (wanted, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            number: int = probe.getsockname()[1]
            return number
    raise Failure("no port is free on 127.0.0.1; end something that listens there")


class Stage:
    """Starts processes, keeps what they print in ``folder``, and ends them in reverse order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(
        self, name: str, module: str, arguments: Sequence[str], environment: dict[str, str] | None = None
    ) -> None:
        """Run ``python -m module``. It gets no Ctrl-C of the terminal: it is ended when its turn comes.

        To be called on the main thread, since the kernel ends the process with the thread that started it.
        """
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", _WITH_THE_DEMO, str(os.getpid()), module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self._running.append((name, process))

    def check(self) -> None:
        """Raise `Failure` with the last lines of its log if a process has ended by itself."""
        for name, process in self._running:
            if process.poll() is not None:
                tail = self._log(name).read_text(errors="replace").strip().splitlines()[-5:]
                raise Failure(
                    f"the demo's {name} ended with code {process.returncode}: {' / '.join(tail) or 'it said nothing'}"
                )

    def wait_for(self, name: str, ready: Any, timeout_s: float = _START_S) -> Any:
        """Poll ``ready()`` until it gives something true, and return that. Raises `Failure` when it takes too long."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            self.check()
            if answer := ready():
                return answer
            time.sleep(_POLL_S)
        raise Failure(f"the demo's {name} did not come up within {timeout_s:.0f} s; is the machine very busy?")

    def stop(self) -> None:
        """End all processes, the last one started first; one that does not end is killed."""
        while self._running:
            _, process = self._running.pop()
            process.terminate()
            try:
                process.wait(_STOP_S)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C: no more patience
                process.kill()
                process.wait()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def listens(port: int) -> bool:
    """Whether something accepts connections on the loopback ``port``."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False


def health(port: int) -> dict[str, Any] | None:
    """What the service says about itself, None while it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2.0)
    try:
        connection.request("GET", "/health")
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
