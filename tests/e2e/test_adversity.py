"""What must not hurt the service, and what must not be lost: no collector, no grpc, forks, other profilers, kill -9."""

import os
import signal
import sqlite3
import sys
import time
from pathlib import Path

import psutil
import pytest
from midwatch_client.api import Client

pytestmark = pytest.mark.process


def test_a_collector_that_does_not_exist(world):
    service = world.service("spiky.py", "--report", world.report_path)
    (line,) = world.eventually("the status names the collector", lambda: world.off(world.address))
    assert "\n" not in line
    report = world.report(service)
    assert (report["errors"], report["requests"] >= 200) == (0, True)


def test_an_environment_without_grpc(world, tmp_path: Path):
    broken = tmp_path / "path" / "grpc"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('no grpc in this environment')\n")
    path = os.pathsep.join([str(broken.parent), os.environ.get("PYTHONPATH", "")])
    service = world.service("spiky.py", "--report", world.report_path, PYTHONPATH=path)
    (line,) = world.eventually("the status names grpc", lambda: world.off("grpc"))
    assert "\n" not in line
    report = world.report(service)
    assert (report["errors"], report["requests"] >= 200) == (0, True)


def test_a_service_that_forks(world, client: Client):
    world.collector()
    service = world.service("spiky.py", "--fork", "--report", world.report_path)
    child = world.forked(service)
    world.eventually("an incident in spite of the fork", lambda: client.incidents("shop"))
    assert child.is_running()
    child.kill()
    assert world.report(service)["errors"] == 0


def test_a_service_that_uses_the_profiler_itself(world, client: Client):
    world.collector()
    runner = world.start(
        "-m", "midwatch_client", "run", "--service", "ranker", "--",
        sys.executable, str(world.services / "ranker.py"), "--profile-itself", "--report", world.report_path,
    )  # fmt: skip
    assert runner.stdout.readline() == "up\n", world.stderr(runner)
    world.eventually("the agent is attached", lambda: client.agents("ranker", connected_only=True))
    assert runner.stdout.readline() == "profiled\n", world.stderr(runner)
    outcomes = [world.midwatch("profile", "ranker", "--seconds", "0.2", "--json") for _ in range(2)]
    report = world.report(runner)
    assert report["own_profiles"] > 0
    assert report["requests"] > 60
    for outcome in outcomes:
        # A window was taken between two of the service's own sessions, or refused because of one; nothing in between.
        assert outcome.returncode == 0 or "profiler" in outcome.stderr.splitlines()[-1]


def test_folders_that_cannot_be_written_are_told_in_a_line_each(world, client: Client):
    """Below a plain file nobody can write, whoever it is; a folder without write permission is open to root."""
    world.collector()
    (world.folder / "file").touch()
    (world.folder / "traces").mkdir()
    runner = world.start(
        "-m", "midwatch_client", "run", "--service", "ranker", "--", sys.executable, str(world.services / "ranker.py"),
        MIDWATCH_STATE_DIR=str(world.folder / "file" / "state"),
        MIDWATCH_TRACE_DIR=str(world.folder / "traces"),
    )  # fmt: skip
    assert runner.stdout.readline() == "up\n", world.stderr(runner)
    world.eventually("the agent is attached", lambda: client.agents("ranker", connected_only=True))
    profiled = world.midwatch("profile", "ranker", "--seconds", "0.2", "--json")
    assert profiled.returncode == 0, "a latch that cannot be laid costs no window"

    (folder,) = (world.folder / "traces").iterdir()
    folder.rename(world.folder / "gone")
    folder.touch()
    failed = world.midwatch("profile", "ranker", "--seconds", "0.2")
    assert failed.returncode == 1
    assert f"{folder} took no trace (Not a directory): set MIDWATCH_TRACE_DIR" in failed.stderr.splitlines()[-1]
    status = world.eventually(
        "the agent's word", lambda: next((a.status for a in client.agents("ranker") if a.status.windows_failed), None)
    )
    (windows,) = (part for part in status.parts if part.name == "windows")
    assert (windows.state, status.state, status.windows_failed) == ("failed", "degraded", 1)
    for told in ("the crash latch is off", "MIDWATCH_STATE_DIR", "1 failed", "MIDWATCH_TRACE_DIR"):
        assert told in windows.detail
    for asked, code in (("agents", 0), ("doctor", 1)):
        shown = world.midwatch(asked, "--json")
        assert shown.returncode == code, shown.stderr
        assert "the crash latch is off" in shown.stdout
    log = world.stderr(runner)
    assert ["crash latch is off" in line for line in log.splitlines() if line.startswith("midwatch: ")] == [True]
    assert "Traceback" not in log


def test_a_killed_service_leaves_no_companion_and_loses_nothing(world, client: Client):
    world.collector()
    service = world.service("spiky.py", "--fork")
    child = world.forked(service)
    companion = world.companion(service)
    world.eventually("an incident", lambda: client.incidents("shop"))
    service.send_signal(signal.SIGKILL)
    service.wait(5)
    assert child.is_running(), "the forked child lives on, and holds what it inherited"
    _, alive = psutil.wait_procs([companion], timeout=5.0)
    child.kill()
    assert not alive, "the companion ends within 5 s of its service"


def test_a_killed_companion_is_replaced(world, client: Client):
    world.collector()
    service = world.service("spiky.py", "--report", world.report_path)
    first = world.companion(service)
    world.eventually("an agent", lambda: client.agents("shop", connected_only=True))
    first.kill()
    second = world.eventually(
        "a new companion", lambda: [one for one in world.companions(service) if one.pid != first.pid]
    )
    seen = client.spikes("shop", limit=1000)
    world.eventually("spikes arrive again", lambda: len(client.spikes("shop", limit=1000)) > len(seen), timeout_s=40)
    report = world.report(service)
    assert report["errors"] == 0
    psutil.wait_procs(second, timeout=5.0)


def test_a_killed_collector_loses_nothing_that_it_acknowledged(world, client: Client):
    collector = world.collector()
    service = world.service("spiky.py", "--every", "150")
    world.eventually("spikes are stored", lambda: len(client.spikes("shop", limit=1000)) >= 2)
    collector.send_signal(signal.SIGKILL)
    collector.wait(5)
    acknowledged = stored_spikes(world)
    time.sleep(3.0)  # the service goes on; the companion spools
    world.collector()
    world.eventually(
        "what was spooled arrives", lambda: len(client.spikes("shop", limit=1000)) > len(acknowledged), timeout_s=40
    )
    service.send_signal(signal.SIGTERM)
    service.wait(15)
    after = stored_spikes(world)
    assert len(after) == len(set(after)), "nothing is stored twice"
    assert set(acknowledged) <= set(after), "nothing acknowledged is missing"


def stored_spikes(world) -> list[str]:
    with sqlite3.connect(f"file:{world.folder / 'midwatch.db'}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT spike_id FROM spikes").fetchall()
    database.close()
    return [row[0] for row in rows]
