"""A link whose companion is a plain `sleep`, with the companion's end of the socket in the test's hand."""

import os
import socket
import subprocess
import time

import pytest
from midwatch.clock import SystemClock
from midwatch.config import Settings
from midwatch.drops import Drops
from midwatch.link import Link
from midwatch.link.frames import Channel
from midwatch.model.resource import Resource


class HandClock(SystemClock):
    """The monotonic time moves only when a test moves it."""

    def __init__(self):
        super().__init__()
        self.now_ns = 1_000_000_000

    def perf_ns(self):
        return self.now_ns

    def advance(self, seconds):
        self.now_ns += int(seconds * 1e9)


class Spawner:
    """Executes `sleep` where the link would execute the companion."""

    def __init__(self, command=("sleep", "60")):
        self.command = command
        self.processes = []
        self.hellos = []
        self.fd = -1

    def __call__(self, fds, hello, log_path):
        self.hellos.append(hello)
        self.fd = fds[0]
        process = subprocess.Popen(self.command, pass_fds=fds)
        self.processes.append(process)
        return process

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def peer(self, spill_dir=""):
        """The companion's end, read by the test in the companion's place."""
        return Channel(socket.socket(fileno=os.dup(self.fd)), spill_dir)


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def drops():
    return Drops()


@pytest.fixture
def spawner():
    made = Spawner()
    yield made
    made.end()


@pytest.fixture
def make_link(tmp_path, drops, spawner):
    """Makes links whose directories lie in the test's own, and stops them."""
    made = []

    def make(clock=None, spawn=spawner, **settings):
        settings = {"state_dir": str(tmp_path / "state"), "trace_dir": str(tmp_path), **settings}
        resource = Resource(agent_id=f"agent{len(made)}", service="reco", pid=os.getpid())
        link = Link(Settings(**settings), resource, clock or SystemClock(), count=drops, spawn=spawn)
        made.append(link)
        return link

    yield make
    spawner.end()
    spawner.command = ("true",)
    for link in made:
        link.stop(timeout_s=0.0)


@pytest.fixture
def wait_until():
    """Polls, with a deadline: processes take the time they take."""

    def wait(condition, seconds=10.0):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come about in time"
            time.sleep(0.005)

    return wait
