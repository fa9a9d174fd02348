"""Real processes: a collector, services with the agent, the command line. All of them end with the test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
from midwatch_client.api import Client
from midwatch_client.errors import CollectorError

T = TypeVar("T")
SERVICES = Path(__file__).with_name("services")


def words_of(process: psutil.Process) -> list[str]:
    """The command line of a process, empty for one that has ended."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return process.cmdline()
    return []


@dataclass
class World:
    """What one test runs, and where it keeps it."""

    folder: Path
    port: int
    running: list[subprocess.Popen] = field(default_factory=list)

    services = SERVICES

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen:
        """One Python process with settings that keep it inside this test's folder."""
        settings = {"MIDWATCH_COLLECTOR": self.address, "MIDWATCH_STATE_DIR": str(self.folder / "state"), **environment}
        with (self.folder / f"{len(self.running)}.stderr").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **settings},
            )
        self.running.append(process)
        return process

    def collector(self) -> subprocess.Popen:
        process = self.start(
            "-m", "midwatch_client", "collector", "--db", str(self.folder / "midwatch.db"), "--grpc", self.address
        )
        with Client(self.address) as client:
            self.eventually("the collector answers", lambda: [client.agents()])
        return process

    def service(self, script: str, *arguments: str, name: str = "shop", **environment: str) -> subprocess.Popen:
        process = self.start(str(SERVICES / script), *arguments, MIDWATCH_SERVICE=name, **environment)
        assert process.stdout.readline() == "up\n", self.stderr(process)
        return process

    @staticmethod
    def forked(service: subprocess.Popen) -> psutil.Process:
        """The child of a service that was given ``--fork``, once it has served requests of its own."""
        *said, pid = service.stdout.readline().split()
        assert said == ["child", "served"]
        return psutil.Process(int(pid))

    def stderr(self, process: subprocess.Popen) -> str:
        return (self.folder / f"{self.running.index(process)}.stderr").read_text()

    @property
    def report_path(self) -> str:
        return str(self.folder / "report.json")

    def off(self, *words: str) -> list[str]:
        """What the service's status says is off, of the lines that hold one of ``words``."""
        with contextlib.suppress(FileNotFoundError):
            status = json.loads(Path(self.report_path).read_text())["status"]
            said = [part["detail"] for part in status["parts"] if part["state"] != "on"] + [status["detail"]]
            return [line for line in said if any(word in line for word in words)]
        return []

    def report(self, process: subprocess.Popen) -> dict[str, Any]:
        """End a service that was given ``--report`` and read what it says."""
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0, self.stderr(process)
        return json.loads(Path(self.report_path).read_text())

    def midwatch(self, *arguments: str) -> subprocess.CompletedProcess:
        """The command line, asking this test's collector."""
        return subprocess.run(
            [sys.executable, "-m", "midwatch_client", *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "MIDWATCH_COLLECTOR": self.address},
        )

    @staticmethod
    def fault_line(name: str) -> int:
        """The line of a service that is marked as its fault."""
        lines = (SERVICES / name).read_text().splitlines()
        return next(number for number, line in enumerate(lines, start=1) if line.endswith("# FAULT"))

    @staticmethod
    def eventually(what: str, ready: Callable[[], T | None], timeout_s: float = 20.0) -> T:
        """Poll until ``ready`` gives something true."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            with contextlib.suppress(CollectorError):
                if answer := ready():
                    return answer
            time.sleep(0.05)
        raise AssertionError(f"{what}: not within {timeout_s} s")

    @staticmethod
    def companions(service: subprocess.Popen) -> list[psutil.Process]:
        """The companions that are there now; one, but for the moment in which a new one takes over."""
        return [child for child in psutil.Process(service.pid).children() if "midwatch.companion" in words_of(child)]

    def companion(self, service: subprocess.Popen) -> psutil.Process:
        """The service's companion, as soon as it is there."""
        return self.eventually("a companion", lambda: next(iter(self.companions(service)), None))

    def end(self) -> None:
        for process in reversed(self.running):
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            for one in (process, *children):
                with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                    one.kill()
            process.wait(10)
            process.stdout.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    made = World(tmp_path, port)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    with Client(world.address) as made:
        yield made
