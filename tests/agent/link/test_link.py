import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from midwatch.drops import drops as process_drops
from midwatch.link import tracedir
from midwatch.model.plain import from_plain
from midwatch.model.resource import Resource
from midwatch.model.settings import CompanionSettings

pytestmark = pytest.mark.process


def test_the_companion_gets_its_settings_and_who_is_watched(make_link, spawner, tmp_path):
    link = make_link(
        collector="collector:7171", token="t0ken", raw_traces="never", spool_bytes=1 << 20, trace_memory_bytes=1 << 28
    )
    assert link.status().state == "off"
    link.start()
    hello = json.loads(spawner.hellos[0])
    settings = from_plain(CompanionSettings, hello["settings"])
    assert (settings.collector, settings.token, settings.raw_traces) == ("collector:7171", "t0ken", "never")
    assert (settings.spool_bytes, settings.state_dir) == (1 << 20, str(tmp_path / "state"))
    assert settings.trace_memory_bytes == 1 << 28
    assert settings.trace_dir == link.trace_dir
    assert from_plain(Resource, hello["resource"]).service == "reco"


def test_frames_reach_the_companion_and_its_orders_come_back(make_link, spawner):
    link = make_link()
    link.start()
    peer = spawner.peer()
    assert link.send({"t": "stats"})
    assert peer.receive()[0] == [{"t": "stats", "n": 1}]
    peer.send({"t": "link", "connected": True, "detail": "connected to the collector at c:1"})
    peer.send({"t": "order", "order": {}})
    assert link.receive() == [{"t": "order", "order": {}}]
    assert link.receive() == []
    assert link.connected
    assert (link.status().state, link.status().detail) == ("on", "connected to the collector at c:1")
    peer.close()


def test_an_answer_that_makes_no_sense_costs_itself_alone(make_link, spawner, swallowed):
    link = make_link()
    link.start()
    peer = spawner.peer()
    peer.send({"t": "flushed", "id": "x"})
    peer.send({"t": "order", "order": {"capture_id": "c1"}})
    assert [frame["t"] for frame in link.receive()] == ["order"]
    assert [place for place, _ in swallowed] == ["link.frame"]
    swallowed.clear()
    peer.close()


def test_a_full_socket_is_a_counted_drop_and_never_a_wait(make_link, drops):
    link = make_link()
    link.start()
    sent = 0
    while link.send({"t": "stats", "text": "x" * 10_000}):
        sent += 1
    assert sent > 5
    assert not link.send({"t": "stats", "text": "x" * 10_000})
    assert dict(drops.counts()) == {"link_full": 2}


def test_what_a_dead_companion_did_not_read_is_left_to_the_next_one(make_link, spawner, clock, wait_until):
    link = make_link(clock)
    link.start()
    link.send({"t": "stats"})
    spawner.processes[0].kill()
    wait_until(lambda: link.status().state == "failed")
    assert link.send({"t": "stats"})
    link.tick()
    assert "the next start is 1 s later" in link.status().detail
    clock.advance(0.5)
    assert not link.tick()
    assert len(spawner.processes) == 1
    clock.advance(0.6)
    assert link.tick()
    assert len(spawner.processes) == 2
    assert "anew" in link.status().detail
    peer = spawner.peer()
    assert [frame["n"] for frame in peer.receive()[0]] == [1, 2]
    peer.close()


def test_a_companion_that_keeps_dying_is_started_ever_less_often(make_link, spawner, clock, wait_until):
    link = make_link(clock)
    link.start()
    delays = []
    for _ in range(4):
        spawner.processes[-1].kill()
        wait_until(lambda: link.status().state == "failed")
        link.tick()
        waited = 0
        while link.status().state == "failed":
            clock.advance(0.5)
            link.tick()
            waited += 0.5
        delays.append(waited)
    assert delays == [1.0, 2.0, 4.0, 8.0]
    clock.advance(31)
    link.tick()
    spawner.processes[-1].kill()
    wait_until(lambda: link.status().state == "failed")
    link.tick()
    assert "the next start is 1 s later" in link.status().detail


def test_a_companion_that_cannot_be_started_is_one_line_of_status(make_link, clock):
    def broken(fd, hello, log_path):
        raise OSError(11, "Resource temporarily unavailable")

    link = make_link(clock, spawn=broken)
    link.start()
    assert link.status().state == "failed"
    assert "Resource temporarily unavailable" in link.status().detail
    assert link.send({"t": "stats"})


def test_a_folder_that_cannot_be_made_is_tried_again(make_link, clock, spawner, tmp_path):
    (tmp_path / "file").touch()
    link = make_link(clock, trace_dir=str(tmp_path / "file"))
    link.start()
    assert link.status().state == "unavailable"
    assert "(Not a directory" in link.status().detail
    assert link.status().detail.endswith("nothing is sent: set MIDWATCH_TRACE_DIR to a folder that can be written")
    (tmp_path / "file").unlink()
    (tmp_path / "file").mkdir()
    clock.advance(9)
    assert not link.tick()
    clock.advance(1)
    assert link.tick()
    assert Path(link.trace_dir).is_dir()
    assert link.send({"t": "stats"})
    assert len(spawner.processes) == 1
    assert not link.tick()


def test_a_link_that_was_stopped_is_not_tried_again(make_link, clock, tmp_path):
    (tmp_path / "file").touch()
    link = make_link(clock, trace_dir=str(tmp_path / "file"))
    link.start()
    link.stop(0.0)
    (tmp_path / "file").unlink()
    (tmp_path / "file").mkdir()
    clock.advance(60)
    assert not link.tick()
    assert link.trace_dir == ""


def test_without_a_python_there_is_no_companion_and_no_directory(make_link, drops, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    link = make_link()
    link.start()
    assert link.status().state == "unavailable"
    assert "uwsgi is not a Python" in link.status().detail
    assert link.trace_dir == ""
    assert link.fileno() == -1
    assert link.receive() == []
    assert not link.send({"t": "stats"})
    assert not link.flush(0.0)
    link.tick()
    assert dict(drops.counts()) == {"link_off": 1}


def test_what_becomes_known_of_the_process_is_told_once_there_is_room(make_link, spawner):
    link = make_link()
    link.start()
    while link.send({"t": "stats", "text": "x" * 1000}):
        pass
    link.update(Resource("agent0", "reco", torch="2.13.0"))
    peer = spawner.peer()
    assert all(frame["t"] == "stats" for frame in peer.receive(limit=10_000)[0])
    link.tick()
    (hello,) = peer.receive()[0]
    assert hello["resource"]["torch"] == "2.13.0"
    link.tick()
    assert peer.receive()[0] == []
    peer.close()


def test_flush_waits_for_the_answer_and_keeps_orders_for_later(make_link, spawner):
    link = make_link()
    link.start()
    peer = spawner.peer()

    def answer():
        frames = []
        while not frames:
            frames = peer.receive()[0]
        peer.send({"t": "order", "order": {"n": 1}})
        peer.send({"t": "flushed", "id": frames[0]["id"]})

    thread = threading.Thread(target=answer)
    thread.start()
    assert link.flush(5.0)
    thread.join()
    assert link.receive() == [{"t": "order", "order": {"n": 1}}]
    peer.close()


def test_flush_gives_up_in_time_and_does_not_wait_for_the_dead(make_link, spawner, wait_until):
    link = make_link()
    link.start()
    assert not link.flush(0.05)
    spawner.processes[0].kill()
    wait_until(lambda: link.status().state == "failed")
    assert not link.flush(30.0)


def test_frames_are_numbered_without_a_gap_for_those_that_did_not_fit(make_link, spawner):
    link = make_link()
    link.start()
    peer = spawner.peer()
    for _ in range(2):
        while link.send({"t": "stats", "text": "x" * 10_000}):
            pass
        frames = peer.receive(limit=1000)[0]
    assert link.send({"t": "stats"})
    (last,) = peer.receive()[0]
    assert last["n"] == frames[-1]["n"] + 1
    peer.close()


def test_stop_lets_the_companion_end_and_removes_the_directory(make_link, spawner):
    spawner.command = ("sleep", "0.2")
    link = make_link()
    link.start()
    directory = Path(link.trace_dir)
    assert directory.is_dir()
    link.stop(1.0)
    assert spawner.processes[0].returncode == 0
    assert not directory.exists()
    assert link.fileno() == -1
    link.tick()
    link.stop()
    assert len(spawner.processes) == 1
    assert link.status().state == "off"


def test_a_companion_that_is_not_done_goes_on_alone_and_keeps_the_directory(
    make_link, spawner, monkeypatch, tmp_path, wait_until
):
    monkeypatch.setattr("midwatch.link.link._LATE_GRACE_S", 0.05)
    link = make_link()
    link.start()
    directory = Path(link.trace_dir)
    peer = spawner.peer()
    link.send({"t": "spike"})
    link.stop(0.05)
    (process,) = spawner.processes
    assert process.poll() is None
    assert [frame["t"] for frame in peer.receive()[0]] == ["spike", "flush", "bye"]
    peer.close()
    assert tracedir.sweep([tmp_path]) == 0, "it holds the lock that the link has let go"
    process.kill()
    wait_until(lambda: process.returncode is not None)
    assert tracedir.sweep([tmp_path]) == 1
    assert not directory.exists()


def test_a_companion_that_never_ends_is_killed_and_counted(make_link, spawner, monkeypatch, wait_until, caplog):
    monkeypatch.setattr("midwatch.link.child._LONGEST_END_S", 0.05)
    before = dict(process_drops.counts()).get("companion_killed", 0)
    link = make_link()
    link.start()
    link.stop(0.0)
    wait_until(lambda: dict(process_drops.counts()).get("companion_killed", 0) == before + 1)
    assert spawner.processes[0].returncode == -9
    wait_until(lambda: "was killed" in caplog.text)


def test_a_bye_waits_for_room_in_the_socket(make_link, spawner, monkeypatch):
    monkeypatch.setattr("midwatch.link.link._LATE_GRACE_S", 10.0)
    link = make_link()
    link.start()
    peer = spawner.peer()
    while link.send({"t": "stats", "text": "x" * 10_000}):
        pass
    seen = []

    def read():
        while "bye" not in seen:
            seen.extend(frame["t"] for frame in peer.receive(1)[0])
        spawner.processes[0].kill()

    thread = threading.Thread(target=read)
    thread.start()
    link.stop(10.0)
    thread.join()
    assert seen.count("bye") == 1
    peer.close()


def test_at_the_end_a_last_companion_takes_what_a_dead_one_left(make_link, spawner, wait_until, drops):
    link = make_link()
    link.start()
    spawner.processes[0].kill()
    wait_until(lambda: link.status().state == "failed")
    link.send({"t": "spike"})
    spawner.command = ("sleep", "0.2")
    link.stop(1.0)
    assert len(spawner.processes) == 2
    assert dict(drops.counts()) == {"link_unread": 1}, "for it was none that reads"


def test_at_the_end_no_companion_is_started_for_nothing(make_link, spawner, wait_until, drops):
    link = make_link()
    link.start()
    spawner.processes[0].kill()
    wait_until(lambda: link.status().state == "failed")
    link.stop(0.1)
    assert len(spawner.processes) == 1
    assert drops.counts() == ()


def test_a_window_that_a_dead_companion_left_is_something_to_start_one_for(make_link, spawner, wait_until):
    link = make_link()
    link.start()
    spawner.processes[0].kill()
    wait_until(lambda: link.status().state == "failed")
    (Path(link.trace_dir) / "pending-1.json").write_text("{}")
    spawner.command = ("sleep", "0.2")
    link.stop(1.0)
    assert len(spawner.processes) == 2


def test_what_was_lost_with_a_companion_is_counted_and_logged(make_link, spawner, drops, caplog):
    link = make_link()
    link.start()
    peer = spawner.peer()
    peer.send({"t": "lost", "count": 3})
    assert link.receive() == []
    assert dict(drops.counts()) == {"companion_lost": 3}
    assert [record.getMessage() for record in caplog.records] == [
        "midwatch: 3 records were lost with a companion that died, or could not read them"
    ]
    peer.close()


def run(program, *arguments):
    """Run a program of its own and return its exit code and what it complained about."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr


FORKED = """
import os, sys, time
from midwatch.clock import SystemClock
from midwatch.config import Settings
from midwatch.link import Link
from midwatch.model.resource import Resource

settings = Settings(state_dir=sys.argv[1], trace_dir=sys.argv[1], collector="")
link = Link(settings, Resource("forked", "reco"), SystemClock())
link.start()
parent_fd = link.fileno()
child = os.fork()
if child == 0:
    quiet = not link.send({"t": "stats"}) and link.receive() == [] and link.fileno() == -1 and not link.flush(1.0)
    link.tick()
    link.update(Resource("forked", "reco"))
    link.start()
    link.stop()
    os._exit(0 if quiet and link.status().state == "off" else 1)
_, status = os.waitpid(child, 0)
assert link.fileno() == parent_fd and link.send({"t": "stats"}) and os.path.isdir(link.trace_dir)
link.stop()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_in_a_forked_child_every_call_does_nothing(tmp_path):
    assert run(FORKED, str(tmp_path)) == (0, "")


IMPORTED = """
import sys
import midwatch.link
heavy = {"grpc", "google", "numpy", "msgspec", "isal", "psutil", "midwatch_proto", "asyncio", "multiprocessing"}
sys.exit(", ".join(heavy & set(sys.modules)) or 0)
"""


def test_nothing_heavy_is_imported_in_the_service():
    assert run(IMPORTED) == (0, "")
