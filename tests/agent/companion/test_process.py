import gzip
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from midwatch.drops import Drops
from midwatch.link import Link
from midwatch.model.capture import Capture
from midwatch.model.plain import to_plain
from midwatch.model.requests import RequestRecord
from midwatch.model.resource import Resource
from midwatch.model.spike import Baseline, Spike
from midwatch.model.status import AgentStatus
from midwatch_proto.v1 import capture_pb2, control_pb2, ingest_pb2

pytestmark = pytest.mark.process

SERVICE = Path(__file__).with_name("service.py")
DATA = Path(__file__).parents[2] / "data" / "h200"


def alive(pid):
    """Whether a process runs; one that ended and was not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def numbers(collected):
    return sorted(sample.unix_ns for sample in collected("host_sample"))


@pytest.mark.parametrize("how", [[], ["fork"]], ids=["alone", "a forked child holds the socket"])
def test_a_killed_service_loses_nothing_and_leaves_nothing(how, collector, collected, tmp_path, wait_until):
    command = [sys.executable, str(SERVICE), collector.address, str(tmp_path), "50", *how]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as service:
        told = json.loads(service.stdout.readline())
        service.kill()
    try:
        wait_until(lambda: not alive(told["companion"]))
        assert not how or alive(told["child"])
        assert numbers(collected) == list(range(50))
        assert not Path(told["trace_dir"]).exists()
        assert list((tmp_path / "state" / "spool").iterdir()) == []
    finally:
        if told["child"]:
            os.kill(told["child"], signal.SIGKILL)


def test_a_killed_companion_is_replaced_unnoticed(make_link, collector, collected, sample, wait_until):
    link = make_link(collector.address)
    for number in range(10):
        assert link.send(sample(number))
    assert link.flush(10.0)
    first = link._child.pid
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: link.status().state == "failed")
    for number in range(10, 20):
        assert link.send(sample(number))

    def replaced():
        link.tick()
        return link._child.pid

    assert wait_until(replaced) != first
    for number in range(20, 30):
        assert link.send(sample(number))
    assert link.flush(10.0)
    assert numbers(collected) == list(range(30))
    wait_until(lambda: not link.receive() and link.connected)
    assert link.status().state == "on"


def test_what_a_killed_companion_held_in_memory_is_counted(make_link, collector, collected, sample, wait_until):
    link = make_link(collector.address)
    link.send(sample(0))
    assert link.flush(10.0)
    link.send(sample(1))  # gathered, for a second
    note = Path(link.trace_dir) / "progress"
    wait_until(lambda: [int(word) for word in note.read_text().split()] == [2, 1])
    os.kill(link._child.pid, signal.SIGKILL)
    wait_until(lambda: link.status().state == "failed")
    link.send(sample(2))
    wait_until(lambda: link.tick() or link._child.pid)
    assert link.flush(10.0)
    assert numbers(collected) == [0, 2]
    assert dict(link._count.counts()) == {"companion_lost": 1}


def test_what_neither_the_collector_nor_the_disk_took_is_counted_at_the_end(make_link, free_port, sample, tmp_path):
    (tmp_path / "full").touch()
    link = make_link(f"127.0.0.1:{free_port}", state_dir=str(tmp_path / "full"))
    for number in range(3):
        link.send(sample(number))
    link.stop(10.0)
    assert dict(link._count.counts()) == {"companion_lost": 3}


def test_a_frame_that_the_companion_cannot_read_is_counted(make_link, collector, collected, sample):
    link = make_link(collector.address)
    assert link.flush(10.0)
    os.kill(link._child.pid, signal.SIGSTOP)
    link.send({**sample(1), "text": "x" * 100_000})
    (spilled,) = Path(link.trace_dir).glob("frame-*")
    spilled.unlink()
    link.send(sample(2))
    os.kill(link._child.pid, signal.SIGCONT)
    assert link.flush(10.0)
    assert numbers(collected) == [2]
    assert dict(link._count.counts()) == {"companion_lost": 1}


@pytest.fixture
def waits(monkeypatch):
    """The seconds that `Link.stop` means to wait, for the companion's word and its end: other than those that it takes,
    they do not grow with what else runs on this machine."""
    asked, doing = [], threading.local()
    stop, poll, wait = Link.stop, Link._wait, subprocess.Popen.wait

    def stopping(link, timeout_s=3.0):
        doing.stop = True
        try:
            stop(link, timeout_s)
        finally:
            doing.stop = False

    def polled(link, seconds, what):
        if what == select.POLLIN:  # to write is waited for only where the socket is full
            asked.append(seconds)
        poll(link, seconds, what)

    def waited(process, timeout=None):
        if getattr(doing, "stop", False):
            asked.append(float("inf") if timeout is None else timeout)
        return wait(process, timeout)

    monkeypatch.setattr(Link, "stop", stopping)
    monkeypatch.setattr(Link, "_wait", polled)
    monkeypatch.setattr(subprocess.Popen, "wait", waited)
    return asked


def test_a_companion_without_processor_time_loses_nothing_at_the_end(
    make_link, collector, collected, sample, tmp_path, wait_until, waits
):
    link = make_link(collector.address)
    assert link.flush(10.0)
    process = link._child._process
    os.kill(process.pid, signal.SIGSTOP)
    for number in range(20):
        assert link.send(sample(number))
        assert link.send({"t": "spike", "spike": to_plain(spike(number))})
    trace = Path(link.trace_dir) / "w1.json"
    trace.write_bytes(gzip.decompress((DATA / "clean_bf16.json.gz").read_bytes()))
    capture = to_plain(Capture("w1", "demand", "done"))
    assert link.send({"t": "capture", "capture": capture, "trace_path": str(trace), "tracks_path": ""})
    assert link.send({**sample(20), "text": "x" * 100_000})
    folder = Path(link.trace_dir)
    waits.clear()
    link.stop(0.2)
    assert sum(waits) < 0.5
    assert process.poll() is None
    assert folder.exists()
    os.kill(process.pid, signal.SIGCONT)
    wait_until(lambda: process.returncode == 0)
    assert numbers(collected) == list(range(21))
    assert len(collected("spike")) == 20
    assert [one.state for one in collected("capture")] == ["done"]
    assert not folder.exists()
    assert list((tmp_path / "state" / "spool").iterdir()) == []
    assert link._count.counts() == ()


@pytest.mark.parametrize("hangs", ["companion", "collector"])
def test_the_end_takes_no_longer_where_something_hangs(
    hangs, make_link, run_collector, collected, sample, wait_until, monkeypatch, waits
):
    counted = Drops()
    monkeypatch.setattr("midwatch.link.child.drops", counted)
    collector = run_collector()
    link = make_link(run_collector.address)
    link.send(sample(1))
    wait_until(lambda: link.flush(1.0) and collected("host_sample"))
    process = link._child._process
    os.kill(process.pid if hangs == "companion" else collector.pid, signal.SIGSTOP)
    assert link.send(sample(2))
    waits.clear()
    link.stop(3.0)
    assert sum(waits) < 3.5
    if hangs == "companion":
        process.kill()
        wait_until(lambda: counted.counts() == (("companion_killed", 1),))
    else:
        wait_until(lambda: process.returncode == 0)
        assert counted.counts() == ()
        os.kill(collector.pid, signal.SIGCONT)
        heir = make_link(run_collector.address)
        wait_until(lambda: heir.flush(1.0) and numbers(collected) == [1, 2])


@pytest.mark.parametrize("ready", [True, False], ids=["at work", "starting"])
def test_a_companion_that_is_ended_together_with_the_service_gets_an_heir_at_the_end(
    ready, make_link, collector, collected, sample
):
    link = make_link(collector.address)
    assert not ready or link.flush(10.0)
    link.send(sample(1))
    process = link._child._process
    process.terminate()
    assert process.wait(10.0) == (0 if ready else -signal.SIGTERM)
    link.send(sample(2))
    link.stop(10.0)
    assert numbers(collected) == [1, 2]
    assert link._count.counts() == ()


def test_a_window_that_is_on_its_way_at_the_end_is_still_read(make_link, collector, collected, tmp_path):
    link = make_link(collector.address)
    assert link.flush(10.0)
    process, captures = link._child._process, []
    for name in ("w1", "w2", "w3"):
        trace = Path(link.trace_dir) / f"{name}.json"
        trace.write_bytes(gzip.decompress((DATA / "clean_bf16.json.gz").read_bytes()))
        captures.append(to_plain(Capture(name, "demand", "done")))
        link.send({"t": "capture", "capture": captures[-1], "trace_path": str(trace), "tracks_path": ""})
    link.stop(0.0)
    assert process.wait(30.0) == 0
    assert [(one.capture_id, one.state) for one in collected("capture")] == [(n, "done") for n in ("w1", "w2", "w3")]


def test_a_killed_collector_misses_nothing_and_stores_nothing_twice(
    make_link, run_collector, collected, sample, wait_until
):
    # It dies between commit and answer: the batch is stored, and will come again.
    first = run_collector(die_at=3)
    link = make_link(run_collector.address)
    sent = 0
    while first.poll() is None:
        assert link.send(sample(sent))
        assert link.send({"t": "spike", "spike": to_plain(spike(sent))})
        sent += 1
        time.sleep(0.01)
        assert sent < 3000
    for _ in range(50):
        link.send(sample(sent))
        sent += 1
    wait_until(lambda: not link.receive() and "connection" in link.status().detail)
    assert not link.connected
    run_collector()

    def all_there():
        link.flush(0.5)
        return len(collected("host_sample")) >= sent

    wait_until(all_there, seconds=20.0)
    assert numbers(collected) == list(range(sent))
    spikes = [one.spike_id for one in collected("spike")]
    assert len(spikes) == len(set(spikes)) > 0


def spike(number):
    return Spike(f"spike{number}", RequestRecord(number, "rank", 1, 2), 3.0, "slo", Baseline())


def test_without_a_collector_all_waits_on_disk_until_there_is_one(
    make_link, run_collector, collected, sample, tmp_path, wait_until, waits
):
    link = make_link(run_collector.address, agent_id="early")
    link.send(sample(1))
    assert link.flush(5.0), "what is on disk is safe enough to answer"
    detail = f"no collector at {run_collector.address}: connection refused"
    wait_until(lambda: not link.receive() and link.status().detail.startswith(detail))
    assert link.status().state == "unavailable"
    waits.clear()
    link.stop(3.0)
    assert sum(waits) < 3.5
    assert [path.suffix for path in (tmp_path / "state" / "spool" / "early").glob("*.pb")] == [".pb"]
    run_collector()
    later = make_link(run_collector.address, agent_id="later")
    wait_until(lambda: numbers(collected) == [1])
    assert later.flush(5.0)
    assert [path.name for path in (tmp_path / "state" / "spool").iterdir()] == ["later"]


def test_an_order_reaches_the_agent_and_its_answer_the_collector(make_link, collector, wait_until):
    link = make_link(collector.address)
    link.send({"t": "status", "status": to_plain(AgentStatus(unix_ns=1, requests=3))})
    order = capture_pb2.CaptureOrder(capture_id="w1", seconds=0.2)
    collector.orders.put(control_pb2.Order(command_id="c1", order=order))
    (frame,) = wait_until(link.receive)
    assert frame["order"]["capture_id"] == "w1"
    assert frame["order"]["command_id"] == "c1"
    refused = Capture("w1", "demand", "refused", detail="a user's profiler runs", command_id="c1")
    link.send({"t": "capture", "capture": to_plain(refused), "trace_path": "", "tracks_path": ""})
    assert link.flush(10.0)
    wait_until(lambda: any(one.WhichOneof("message") == "command_update" for one in collector.said))
    update = collector.said[-1].command_update
    assert (update.command_id, update.state) == ("c1", control_pb2.COMMAND_STATE_REFUSED)
    (capture,) = collector.records("capture")
    assert capture.detail == "a user's profiler runs"
    (status,) = collector.records("agent_status")
    assert status.requests == 3
    assert [(part.name, part.state, part.detail) for part in status.parts] == [
        ("spool", "on", ""),
        ("upload", "on", ""),
    ]


def test_why_the_collector_refuses_is_said_on_both_sides(make_link, collector, sample, wait_until):
    def judge(batch, _context):
        collector._commit(batch)
        state, reason = ingest_pb2.BATCH_STATE_ACCEPTED, "a host sample has an impossible interval_ns, -1"
        return ingest_pb2.UploadResponse(batch_id=batch.batch_id, state=state, rejected_records=1, reason=reason)

    collector.judge = judge
    link = make_link(collector.address)
    link.send(sample(1))
    said = "the collector refused records, the last because of this: a host sample has an impossible interval_ns, -1"
    wait_until(lambda: not link.receive() and link.status().detail.endswith(f"; {said}"))
    assert link.status().state == "on"
    link.send({"t": "status", "status": to_plain(AgentStatus(unix_ns=1, state="on"))})
    wait_until(lambda: collector.said[-1].WhichOneof("message") == "heartbeat")
    parts = {part.name: part for part in collector.said[-1].heartbeat.status.parts}
    assert (parts["upload"].state, parts["upload"].detail) == ("on", said)


def test_the_collector_hears_of_a_window_that_opens(make_link, collector, wait_until):
    link = make_link(collector.address)
    wait_until(lambda: not link.receive() and link.connected)
    link.send({"t": "open", "command_id": "c1", "capture_id": "w1"})
    wait_until(lambda: collector.said[-1].WhichOneof("message") == "command_update")
    update = collector.said[-1].command_update
    assert (update.command_id, update.capture_id) == ("c1", "w1")
    assert update.state == control_pb2.COMMAND_STATE_OPEN


def test_what_becomes_known_of_the_process_is_told_to_the_collector(make_link, collector, sample, wait_until):
    link = make_link(collector.address)
    wait_until(lambda: not link.receive() and link.connected)
    link.update(Resource("agent", "reco", torch="2.13.0"))
    link.send(sample(1))
    assert link.flush(10.0)
    assert collector.batches()[-1].resource.torch == "2.13.0"
    wait_until(lambda: collector.attached == 2)
    assert collector.said[-1].hello.resource.torch == "2.13.0"


def test_a_terminals_interrupt_is_not_for_it_and_a_request_to_end_is_heeded(make_link, collector, collected, sample):
    link = make_link(collector.address)
    assert link.flush(10.0)
    process = link._child._process
    os.kill(process.pid, signal.SIGINT)
    link.send(sample(1))
    assert link.flush(10.0)
    assert os.getpgid(process.pid) != os.getpgid(0)
    assert os.getpriority(os.PRIO_PROCESS, process.pid) >= 10
    link.send(sample(2))
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(5.0) == 0
    assert numbers(collected) == [1, 2]
    assert Path(link.trace_dir).is_dir(), "the service still lives and writes there"


def test_without_grpc_the_service_loses_uploads_alone(make_link, tmp_path, monkeypatch, sample, wait_until):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "grpc.py").write_text("raise ModuleNotFoundError('no grpc here', name='grpc')")
    monkeypatch.syspath_prepend(str(tmp_path / "bare"))
    trace = tmp_path / "trace.json"
    trace.write_text("{}")
    link = make_link("127.0.0.1:1")
    link.send({"t": "capture", "capture": {}, "trace_path": str(trace), "tracks_path": ""})
    wait_until(lambda: not link.receive() and "grpc is not installed" in link.status().detail)
    assert "pip install grpcio protobuf" in link.status().detail
    assert link.status().state == "unavailable"
    wait_until(lambda: not trace.exists())
    assert link.flush(5.0)
    link.tick()
    assert link._child.pid


def test_without_an_address_nothing_is_sent_and_the_status_says_so(make_link, wait_until):
    link = make_link("")
    wait_until(lambda: not link.receive() and "set MIDWATCH_COLLECTOR" in link.status().detail)
    assert link.flush(5.0)


def test_it_is_small_while_it_idles(make_link, collector, wait_until):
    link = make_link(collector.address)
    wait_until(lambda: not link.receive() and link.connected)
    status = Path(f"/proc/{link._child.pid}/status").read_text()
    assert int(status.partition("VmRSS:")[2].split()[0]) < 80 * 1024
