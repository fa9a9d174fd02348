"""Control, upload and flush together, against addresses behind which there is no collector, or half of one."""

import contextlib
import socket
import threading
import time

import pytest
from midwatch.companion.upstream import Upstream
from midwatch.model.plain import to_plain
from midwatch.model.requests import RequestRecord
from midwatch.model.resource import Resource
from midwatch.model.settings import CompanionSettings
from midwatch.model.spike import Baseline, Spike


@pytest.fixture
def hollow():
    """The address of a port that takes each connection and closes it, as a proxy before a dead collector does."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                listener.accept()[0].close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


@pytest.fixture
def make_upstream(tmp_path):
    made = []

    def make(address):
        settings = CompanionSettings(collector=address, state_dir=str(tmp_path), trace_dir=str(tmp_path))
        upstream = Upstream(Resource("me", "reco"), settings, lambda _frame: "")
        made.append(upstream)
        upstream.start(lambda: None)
        return upstream

    yield make
    for upstream in made:
        upstream.close()


def spike(number):
    return {
        "t": "spike",
        "n": number,
        "spike": to_plain(Spike(str(number), RequestRecord(number, "rank", 1, 1), 1.0, "slo", Baseline())),
    }


def flush(upstream, seconds):
    upstream.ask_flush()
    deadline = time.monotonic() + seconds
    while not (done := upstream.flushed()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return done


@pytest.mark.parametrize("where", ["accepts and closes", "no such socket"])
def test_a_flush_ends_where_connections_are_taken_or_the_address_is_grpcs_alone(
    make_upstream, hollow, tmp_path, wait_until, where
):
    upstream = make_upstream(hollow if where == "accepts and closes" else f"unix:{tmp_path}/nobody")
    wait_until(lambda: upstream._control_trouble)
    upstream.handle(spike(1))
    for _ in range(2):
        assert flush(upstream, 4.0), "a service waits five seconds at its end"
    assert upstream._spool.waiting == 1


def test_evidence_goes_where_command_streams_alone_are_not_served(make_upstream, collector, wait_until):
    collector.turns_away = "no healthy upstream"
    upstream = make_upstream(collector.address)
    wait_until(lambda: "no healthy upstream" in upstream._control_trouble)
    upstream.handle(spike(1))
    wait_until(lambda: collector.records("spike"))
    assert flush(upstream, 4.0)
