"""Real collectors, real spools, real processes, and a way to wait for what they do."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from midwatch.clock import SystemClock
from midwatch.companion.spool import Entry, Kind, Spool
from midwatch.config import Settings
from midwatch.drops import Drops
from midwatch.link import Link
from midwatch.model.plain import to_plain
from midwatch.model.resource import Resource
from midwatch.model.samples import HostSample

PROGRAM = Path(__file__).with_name("collector.py")
_spec = importlib.util.spec_from_file_location("companion_test_collector", PROGRAM)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)


@pytest.fixture
def wait_until():
    """Polls, with a deadline: processes take the time they take."""

    def wait(condition, seconds=15.0):
        deadline = time.monotonic() + seconds
        while not (got := condition()):
            assert time.monotonic() < deadline, "it did not come about in time"
            time.sleep(0.01)
        return got

    return wait


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "collected"
    path.mkdir()
    return path


@pytest.fixture
def collector(store):
    """A collector in this process."""
    made = _module.Collector(store)
    yield made
    made.stop()


@pytest.fixture
def collected(store):
    """Reads what any collector committed."""
    reader = _module.Collector.__new__(_module.Collector)
    reader.store = store
    return reader.records


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def run_collector(store, free_port):
    """Starts a collector as a process of its own, on one and the same port."""
    made = []

    def run(die_at=0):
        process = subprocess.Popen([sys.executable, str(PROGRAM), str(free_port), str(store), str(die_at)])
        made.append(process)
        return process

    run.address = f"127.0.0.1:{free_port}"
    yield run
    for process in made:
        process.kill()
        process.wait()


@pytest.fixture
def drops():
    return Drops()


@pytest.fixture
def make_spool(tmp_path, drops):
    """Makes spools under one root."""
    made = []

    def make(agent_id="me", limit_bytes=1 << 20, root=tmp_path / "spool"):
        made.append(Spool(root, agent_id, limit_bytes, drops.drop))
        return made[-1]

    yield make
    for spool in made:
        spool.close()


@pytest.fixture
def entry():
    """Makes entries, each younger than the one before."""
    count = 0

    def make(kind=Kind.SAMPLES, records=1):
        nonlocal count
        count += 1
        return Entry(count, kind, records, f"batch{count}")

    return make


@pytest.fixture
def make_link(tmp_path):
    """Links with real companions, in this process; stopped afterwards, whatever became of the companion."""
    made = []

    def make(collector, agent_id="agent", **settings):
        settings = {"state_dir": str(tmp_path / "state"), "trace_dir": str(tmp_path), **settings}
        resource = Resource(agent_id=agent_id, service="reco", pid=os.getpid())
        link = Link(Settings(collector=collector, **settings), resource, SystemClock(), count=Drops())
        made.append(link)
        link.start()
        return link

    yield make
    for link in made:
        if link._child.pid:
            os.kill(link._child.pid, signal.SIGKILL)
        link.stop(0.0)


@pytest.fixture
def sample():
    """A ``stats`` frame with one host sample; its number stands where the time would."""
    return lambda number: {"t": "stats", "host": [to_plain(HostSample(unix_ns=number, interval_ns=1))]}
