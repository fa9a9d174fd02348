from __future__ import annotations

import logging
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, nullcontext, suppress

import grpc
import pytest
from midwatch_proto.v1 import ingest_pb2, ingest_pb2_grpc, query_pb2, query_pb2_grpc
from midwatch_server.app import Collector
from midwatch_server.errors import StartError
from midwatch_server.logs import PlainFormatter
from midwatch_server.rpc.server import bind, is_loopback, make_server
from midwatch_server.settings import CollectorSettings

RUN = """
import sys
from midwatch_server.app import run_collector
from midwatch_server.settings import CollectorSettings
run_collector(CollectorSettings(sys.argv[1], sys.argv[2]))
"""


@contextmanager
def collector_process(db, address="127.0.0.1:0"):
    """A collector in a process of its own; gives the process and the address."""
    command = [sys.executable, "-c", RUN, str(db), address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            found = re.fullmatch(r"midwatch collector: listening on (\S+:\d+), storing in (\S+)\n", line)
            assert found, process.communicate(timeout=30)
            assert found[2] == str(db)
            yield process, found[1]
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=30)


def send(address, batches, kill_after=None, process=None):
    """Send batches on one stream; the batches that were acknowledged, up to a kill of the collector."""
    acknowledged = []
    with grpc.insecure_channel(address) as channel:
        answers = ingest_pb2_grpc.IngestServiceStub(channel).Upload(
            ingest_pb2.UploadRequest(batch=batch) for batch in batches
        )
        with suppress(grpc.RpcError) if kill_after else nullcontext():
            for answer in answers:
                assert answer.state == ingest_pb2.BATCH_STATE_ACCEPTED
                acknowledged.append(answer.batch_id)
                if len(acknowledged) == kill_after:
                    process.kill()
    return acknowledged


@pytest.mark.process
def test_a_collector_that_is_killed_loses_no_acknowledged_batch_and_stores_none_twice(tmp_path, make):
    batches = [make.batch(make.stats(), make.spike(f"s{number}"), batch_id=f"b{number}") for number in range(600)]
    left, acknowledged = batches, []
    for kill_after in (40, 90, None):
        with collector_process(tmp_path / "midwatch.db") as (process, address):
            if kill_after is None:
                with grpc.insecure_channel(address) as channel:
                    query = query_pb2_grpc.QueryServiceStub(channel)
                    asked = query_pb2.ListSpikesRequest(limit=1000)
                    there = {one.spike.spike_id for one in query.ListSpikes(asked).spikes}
                assert {batch_id.replace("b", "s") for batch_id in acknowledged} <= there
            acknowledged += send(address, left, kill_after, process)
            left = [batch for batch in batches if batch.batch_id not in acknowledged]
            if kill_after is not None:
                assert process.wait(30) == -signal.SIGKILL
                assert left
                continue
            assert send(address, batches) == [batch.batch_id for batch in batches]
            with grpc.insecure_channel(address) as channel:
                query = query_pb2_grpc.QueryServiceStub(channel)
                (incident,) = query.ListIncidents(query_pb2.ListIncidentsRequest()).incidents
                assert incident.count == len(batches)
                assert len(query.ListSpikes(query_pb2.ListSpikesRequest(limit=1000)).spikes) == len(batches)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            assert process.returncode == 0
    assert not left


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly(tmp_path, number):
    with collector_process(tmp_path / "midwatch.db") as (process, _address):
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, "")
        assert "schema created" in err
        assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["midwatch.db", "midwatch.db.d", "midwatch.db.lock"]


async def test_an_address_in_use_is_refused(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError, match=f"Cannot listen on {address}: it is in use"):
            await Collector(CollectorSettings(str(tmp_path / "midwatch.db"), address)).start()
    again = Collector(CollectorSettings(str(tmp_path / "midwatch.db"), "127.0.0.1:0"))
    await again.start()
    await again.stop()


async def test_two_collectors_do_not_share_a_port(tmp_path, collector):
    with pytest.raises(StartError, match="in use"):
        await Collector(CollectorSettings(str(tmp_path / "other.db"), collector.address)).start()


@pytest.mark.parametrize("address", ["", "7171", "localhost", ":7171", "localhost:", "localhost:x", "localhost:99999"])
async def test_what_is_no_address_is_refused(address):
    with pytest.raises(StartError, match="host:port"):
        bind(make_server(), address)


async def test_only_a_loopback_address_is_silent(caplog):
    server = make_server()
    bind(server, "127.0.0.1:0")
    assert caplog.text == ""
    bind(server, "0.0.0.0:0")
    assert "without authentication" in caplog.text
    await server.stop(None)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False), ("[::]", False), ("box", False)],
)
def test_loopback(host, expected):
    assert is_loopback(host) is expected


def test_names_in_the_log_neither_steer_a_terminal_nor_begin_a_line_of_their_own():
    try:
        raise ValueError("\x1b[2J of an agent")
    except ValueError:
        record = logging.LogRecord(
            "x", logging.INFO, "f", 1, "agent %s", ("a\x1b]0;mine\x07\nINFO all is well",), sys.exc_info()
        )
    said = PlainFormatter().format(record)
    assert r"INFO agent a\x1b]0;mine\x07\nINFO all is well" in said.splitlines()[0]
    assert said.splitlines()[-1] == r"ValueError: \x1b[2J of an agent"
    assert "\x1b" not in said
