import threading

import grpc
import pytest
from midwatch.companion.batches import Batcher
from midwatch.companion.connection import Connection
from midwatch.companion.retry import Retry
from midwatch.companion.spool import Kind
from midwatch.companion.uploader import Uploader
from midwatch.model.resource import Resource
from midwatch.model.samples import HostSample
from midwatch.wire import to_message
from midwatch_proto.v1 import ingest_pb2


class AtOnce(Retry):
    """No pause between two tries."""

    def delay_s(self):
        return 0.0


def record(number, size=0):
    host = to_message(HostSample(unix_ns=number, interval_ns=1))
    return ingest_pb2.Record(host_sample=host) if not size else chunk(number, size)


def chunk(number, size):
    return ingest_pb2.Record(trace_chunk=ingest_pb2.TraceChunk(capture_id=str(number), data=b"x" * size))


@pytest.fixture
def spool(make_spool):
    return make_spool(limit_bytes=64 << 20)


@pytest.fixture
def batcher(spool):
    return Batcher(spool, Resource("me", "reco"))


@pytest.fixture
def upload(spool, drops):
    """Starts uploaders and stops them; ``news`` is what they reported."""
    made = []

    def start(where, token=""):
        connection = Connection(where, token) if isinstance(where, str) else where
        uploader = Uploader(spool, connection, drops.drop, start.news.append, retry=AtOnce())
        made.append((uploader, connection))
        uploader.start()
        return uploader

    start.news = []
    yield start
    for uploader, connection in made:
        uploader.stop()
        connection.close()


def test_what_waits_is_sent_in_order_and_then_forgotten(upload, batcher, spool, collector, wait_until):
    for number in range(20):
        batcher.put(Kind.SAMPLES, [record(number)])
    upload(collector.address, token="t0ken")
    wait_until(lambda: spool.waiting == 0)
    batcher.put(Kind.EVIDENCE, [record(20)])
    wait_until(lambda: spool.waiting == 0)
    assert [sample.unix_ns for sample in collector.records("host_sample")] == list(range(21))
    first = collector.batches()[0]
    assert (first.agent_id, first.resource.service) == ("me", "reco")
    assert collector.metadata[0]["authorization"] == "Bearer t0ken"
    assert upload.news[-1] == ""


def test_what_lay_in_the_socket_at_the_start_is_spooled_at_once_and_later_samples_are_gathered(batcher, spool):
    batcher.sample(host_sample=record(1).host_sample)
    batcher.tick()
    assert spool.waiting == 1
    batcher.sample(host_sample=record(2).host_sample)
    batcher.tick()
    assert spool.waiting == 1
    batcher.flush()
    assert spool.waiting == 2


def test_a_batch_that_was_not_answered_is_sent_again_under_its_id(upload, batcher, spool, collector, wait_until):
    broken = threading.Event()

    def break_once(batch, context):
        if not broken.is_set():
            broken.set()
            collector._commit(batch)
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")

    collector.judge = break_once
    batcher.put(Kind.SAMPLES, [record(1)])
    upload(collector.address)
    wait_until(lambda: spool.waiting == 0)
    assert len(collector.seen) == 2
    assert len(set(collector.seen)) == 1
    assert "going down" in upload.news[0]


def test_a_rejected_batch_is_counted_and_not_sent_again(upload, batcher, spool, collector, drops, wait_until):
    def judge(batch, context):
        if batch.records[0].host_sample.unix_ns == 1:
            return ingest_pb2.UploadResponse(
                batch_id=batch.batch_id, state=ingest_pb2.BATCH_STATE_REJECTED, reason="no service"
            )
        collector._commit(batch)
        return ingest_pb2.UploadResponse(
            batch_id=batch.batch_id,
            state=ingest_pb2.BATCH_STATE_ACCEPTED,
            rejected_records=1,
            reason="an impossible figure",
        )

    collector.judge = judge
    batcher.put(Kind.SAMPLES, [record(1), record(2)])
    uploader = upload(collector.address)
    wait_until(lambda: uploader.refusal == "no service")
    batcher.put(Kind.SAMPLES, [record(3), record(4)])
    wait_until(lambda: uploader.refusal == "an impossible figure" and spool.waiting == 0)
    assert dict(drops.counts()) == {"rejected": 3}
    assert len(collector.seen) == 2


def test_a_batch_too_large_is_found_among_others_and_given_up(upload, batcher, spool, collector, drops, wait_until):
    for number in range(4):
        batcher.put(Kind.TRACE, [chunk(number, (5 << 20) if number == 2 else 10)])
    upload(collector.address)
    wait_until(lambda: spool.waiting == 0)
    assert [one.capture_id for one in collector.records("trace_chunk")] == ["0", "1", "3"]
    assert dict(drops.counts()) == {"too_large": 1}


def test_a_batch_that_the_collector_chokes_on_does_not_hold_up_the_others(
    upload, batcher, spool, collector, drops, wait_until
):
    def choke(batch, context):
        if batch.records[0].host_sample.unix_ns == 1:
            raise RuntimeError("a fault of the collector's")

    collector.judge = choke
    for number in range(4):
        batcher.put(Kind.SAMPLES, [record(number)])
    upload(collector.address)
    wait_until(lambda: len(collector.records("host_sample")) == 3)
    collector.judge = lambda batch, context: None
    wait_until(lambda: spool.waiting == 0)
    assert sorted(sample.unix_ns for sample in collector.records("host_sample")) == [0, 1, 2, 3]
    assert drops.counts() == ()


def test_a_busy_collector_costs_nothing(upload, batcher, spool, collector, drops, wait_until):
    busy = [3]

    def judge(batch, context):
        if busy[0]:
            busy[0] -= 1
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams")

    collector.judge = judge
    for number in range(3):
        batcher.put(Kind.SAMPLES, [record(number)])
    upload(collector.address)
    wait_until(lambda: spool.waiting == 0)
    assert sorted(sample.unix_ns for sample in collector.records("host_sample")) == [0, 1, 2]
    assert drops.counts() == ()


def test_a_file_that_is_no_batch_is_put_aside(upload, batcher, spool, collector, drops, tmp_path, wait_until):
    batcher.put(Kind.SAMPLES, [record(1)])
    batcher.put(Kind.SAMPLES, [record(2)])
    first = min((tmp_path / "spool" / "me").glob("*.pb"))
    first.write_bytes(b"")
    upload(collector.address)
    wait_until(lambda: spool.waiting == 0)
    assert [sample.unix_ns for sample in collector.records("host_sample")] == [2]
    assert dict(drops.counts()) == {"spool_corrupt": 1}


def test_a_collector_that_never_answers_is_left(upload, batcher, spool, collector, wait_until, monkeypatch):
    silent = threading.Event()
    monkeypatch.setattr("midwatch.companion.uploader._ANSWER_S", 0.05)
    collector.judge = lambda batch, context: None if silent.is_set() else silent.wait(20) and None
    batcher.put(Kind.SAMPLES, [record(1)])
    uploader = upload(collector.address)

    def given_up():
        uploader.check()
        return uploader.failures

    wait_until(given_up)
    silent.set()
    assert "did not answer in time" in upload.news[0]
    wait_until(lambda: spool.waiting == 0)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "refuses this agent's token: set MIDWATCH_TOKEN to a valid one"),
        (grpc.StatusCode.UNIMPLEMENTED, "is no Midwatch collector, or an older one"),
        (grpc.StatusCode.INTERNAL, "failed: because"),
    ],
)
def test_an_error_is_one_sentence_with_the_remedy(code, says, upload, batcher, collector, wait_until):
    collector.judge = lambda batch, context: context.abort(code, "because")
    batcher.put(Kind.SAMPLES, [record(1)])
    upload(collector.address)
    assert says in wait_until(lambda: upload.news)[0]


def test_an_address_where_nobody_listens(upload, batcher, spool, free_port, wait_until):
    batcher.put(Kind.SAMPLES, [record(1)])
    upload(f"127.0.0.1:{free_port}")
    assert wait_until(lambda: upload.news)[0] == f"no collector at 127.0.0.1:{free_port}: connection refused"
    assert spool.waiting == 1


def test_delays_grow_are_spread_and_have_an_end():
    class Highest:
        def uniform(self, low, high):
            assert low == high / 2
            return high

    retry = Retry(Highest())
    assert [retry.delay_s() for _ in range(7)] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    retry.reset()
    assert retry.delay_s() == 0.5
    assert max(Retry(cap_s=5.0).delay_s() for _ in range(100)) <= 5.0


def test_a_batch_that_is_refused_for_good_is_given_up(upload, batcher, spool, collector, drops, wait_until):
    def judge(batch, context):
        if batch.records[0].host_sample.unix_ns == 1:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "batch_id has at most 128 characters")

    collector.judge = judge
    for number in range(4):
        batcher.put(Kind.SAMPLES, [record(number)])
    uploader = upload(collector.address)
    wait_until(lambda: spool.waiting == 0)
    assert uploader.refusal == "batch_id has at most 128 characters"
    assert sorted(sample.unix_ns for sample in collector.records("host_sample")) == [0, 2, 3]
    assert dict(drops.counts()) == {"rejected": 1}


def test_while_the_collector_is_lost_nothing_is_tried_until_it_is_found(upload, batcher, spool, collector, wait_until):
    class Looked(Connection):
        looks = 0

        @property
        def lost(self):
            self.looks += 1
            return self.gone

        @lost.setter
        def lost(self, gone):
            self.gone = gone

    connection = Looked(collector.address)
    connection.lost = True
    uploader = upload(connection)
    for number in range(3):
        batcher.put(Kind.SAMPLES, [record(number)])
        looks = connection.looks
        uploader.kick()
        wait_until(lambda looks=looks: connection.looks > looks)
    assert spool.waiting == 3
    assert collector.metadata == []
    connection.lost = False
    uploader.kick()
    wait_until(lambda: spool.waiting == 0, seconds=0.9)  # and not at the next look, a second later
