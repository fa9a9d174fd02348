"""Processes of the bench: one collector, and one service at a time with nothing but the agent attached."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from faults.expected import Expected
from midwatch_client.api import Client
from midwatch_client.errors import CollectorError

T = TypeVar("T")
START_S = 90.0
STOP_S = 10.0


@contextlib.contextmanager
def process(
    arguments: list[str], log: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """One Python process while the block lasts; ended by SIGTERM, its output in ``log``."""
    with log.open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, *arguments], stdout=out, stderr=out, env={**os.environ, **(environment or {})}
        )
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(STOP_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def poll(what: str, ready: Callable[[], T | None], timeout_s: float, running: subprocess.Popen[bytes], log: Path) -> T:
    """Ask ``ready`` until it gives something true. Raises `RuntimeError`, with the log's end, when it never does."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until and running.poll() is None:
        if answer := ready():
            return answer
        time.sleep(0.1)
    tail = log.read_text(errors="replace")[-1500:]
    raise RuntimeError(f"{what}: nothing within {timeout_s:.0f} s (code {running.poll()})\n{tail}")


def free_address() -> str:
    """An address of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def listens(port: int) -> bool:
    """Whether somebody listens at that port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def answers(client: Client) -> bool:
    """Whether the collector is there."""
    with contextlib.suppress(CollectorError):
        client.agents()
        return True
    return False


@contextlib.contextmanager
def collector(folder: Path) -> Iterator[Client]:
    """A collector on SQLite, and a client for it."""
    address, log = free_address(), folder / "collector.log"
    arguments = ["-m", "midwatch_client", "collector", "--db", str(folder / "bench.db"), "--grpc", address]
    with process(arguments, log) as running, Client(address) as client:
        poll("collector", lambda: answers(client), START_S, running, log)
        yield client


@contextlib.contextmanager
def service(
    expected: Expected,
    client: Client,
    folder: Path,
    device: str,
    seconds: float,
    extra: tuple[str, ...] = (),
    settings: dict[str, str] | None = None,
) -> Iterator[Path]:
    """A service that serves; the block gets the file that holds its latencies once the block is over.

    ``extra`` are more arguments for it, ``settings`` more variables of its environment.
    """
    log, latencies = folder / f"{expected.name}.log", folder / f"{expected.name}.latencies"
    latencies.unlink(missing_ok=True)
    arguments = [str(expected.path), "--seconds", str(seconds), "--device", device, "--latencies", str(latencies)]
    environment = {
        "MIDWATCH_SERVICE": expected.name,
        "MIDWATCH_COLLECTOR": client.address,
        "MIDWATCH_STATE_DIR": str(folder / "state"),
        "MIDWATCH_WINDOWS_PER_HOUR": "3600",
        **(settings or {}),
    }
    with process([*arguments, *extra], log, environment) as running:
        poll(
            expected.name,
            lambda: latencies.exists() and client.agents(expected.name, connected_only=True),
            START_S,
            running,
            log,
        )
        yield latencies
