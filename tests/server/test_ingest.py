from __future__ import annotations

import asyncio

import grpc
import pytest
from midwatch_proto.v1 import ingest_pb2, query_pb2
from midwatch_server.rpc import ingest as module
from midwatch_server.rpc.server import MAX_RECEIVE_BYTES

ACCEPTED, REJECTED = ingest_pb2.BATCH_STATE_ACCEPTED, ingest_pb2.BATCH_STATE_REJECTED


def stored(collector, table):
    return collector.store.ask(lambda connection: connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar())


async def pragma(collector, statement):
    future = collector.store.writer.submit(lambda connection: connection.exec_driver_sql(statement).scalar())
    return await asyncio.wrap_future(future)


async def test_batches_are_answered_in_the_order_sent_and_share_commits(peer, collector, make):
    batches = [make.batch(make.stats(), batch_id=f"b{number}") for number in range(200)]
    answers = await peer.upload(*batches)
    assert [answer.batch_id for answer in answers] == [batch.batch_id for batch in batches]
    assert {answer.state for answer in answers} == {ACCEPTED}
    assert stored(collector, "route_stats") == 200
    assert collector.store.writer.commits < 200


async def test_an_incident_is_there_once_its_spike_is_acknowledged(peer, make):
    await peer.upload(make.batch(make.spike()))
    found = (await peer.query.ListIncidents(query_pb2.ListIncidentsRequest(service="ranker"))).incidents
    assert [(one.count, one.route) for one in found] == [(1, "rank")]


async def test_a_storm_of_duplicates_is_stored_once(peer, collector, make):
    batches = [make.batch(make.stats(), make.spike(f"s{n}"), batch_id=f"b{n}") for n in range(10)]
    answers = await asyncio.gather(*[peer.upload(*batches[turn:], *batches[:turn]) for turn in range(10)])
    assert all(answer.state == ACCEPTED for stream in answers for answer in stream)
    assert [stored(collector, table) for table in ("batches", "route_stats", "spikes", "occurrences")] == [10] * 4
    assert (await peer.query.ListIncidents(query_pb2.ListIncidentsRequest())).incidents[0].count == 10


async def test_wrong_input_is_rejected_with_a_reason_and_the_stream_goes_on(peer, make):
    nameless = make.batch(make.stats(), batch_id="bad")
    nameless.resource.service = ""
    partly = make.batch(make.stats(), ingest_pb2.Record(), batch_id="partly")
    answers = await peer.upload(ingest_pb2.Batch(), nameless, partly, make.batch(make.stats(), batch_id="good"))
    assert [answer.state for answer in answers] == [REJECTED, REJECTED, ACCEPTED, ACCEPTED]
    assert "MIDWATCH_SERVICE" in answers[1].reason
    assert (answers[2].rejected_records, answers[3].rejected_records) == (1, 0)
    assert "kind that this collector does not know" in answers[2].reason


async def test_a_duplicate_gets_the_answer_of_the_first(peer, make):
    batch = make.batch(make.stats(), ingest_pb2.Record())
    first, again = await peer.upload(batch, batch)
    assert first == again
    assert again.rejected_records == 1


async def test_a_message_that_is_too_large_is_refused_with_its_code(peer, make):
    huge = make.batch(make.chunk("capture-1", 0, bytes(MAX_RECEIVE_BYTES), total=MAX_RECEIVE_BYTES, last=True))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await peer.upload(huge)
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_full_disk_is_unavailable_and_nothing_is_acknowledged(peer, collector, make):
    await peer.upload(make.batch(make.stats()))
    pages = await pragma(collector, "PRAGMA page_count")
    await pragma(collector, f"PRAGMA max_page_count={pages}")
    batch = make.batch(*[make.spike(f"s{number}") for number in range(200)])
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await peer.upload(batch)
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "full" in error.value.details()
    assert stored(collector, "spikes") == 0
    await pragma(collector, "PRAGMA max_page_count=1000000")
    (answer,) = await peer.upload(batch)
    assert answer.state == ACCEPTED
    assert stored(collector, "spikes") == 200


async def test_a_batch_on_which_the_collector_fails_is_rejected_without_a_traceback(peer, make, monkeypatch, caplog):
    def broken(*_args):
        raise RuntimeError("secret inside")

    monkeypatch.setattr(module, "prepare", broken)
    (answer,) = await peer.upload(make.batch(make.stats()))
    assert (answer.state, answer.reason) == (REJECTED, "the collector failed on this batch; its log says how")
    assert "secret inside" in caplog.text


async def test_a_raw_trace_comes_whole_whatever_its_batches(peer, make):
    data = bytes(range(256)) * 5000
    cuts = list(range(0, len(data), 300_000))
    batches = [
        make.batch(make.chunk("capture-1", at, data[at : at + 300_000], total=len(data), last=at == cuts[-1]))
        for at in cuts
    ]
    await peer.upload(make.batch(make.capture()), *batches)
    await peer.upload(batches[0], batches[-1])
    pieces = [piece async for piece in peer.query.GetTrace(query_pb2.GetTraceRequest(capture_id="capt"))]
    assert b"".join(piece.data for piece in pieces) == data
    assert {piece.total_bytes for piece in pieces} == {len(data)}
    found = await peer.query.GetCapture(query_pb2.GetCaptureRequest(capture_id="capture-1"))
    assert found.capture.has_raw_trace


async def test_many_agents_that_hang_up_leave_nothing_behind(peer, collector, make):
    async def hang_up(number):
        call = peer.ingest.Upload()
        await call.write(ingest_pb2.UploadRequest(batch=make.batch(make.stats(), resource=make.resource(f"a{number}"))))
        call.cancel()

    await asyncio.gather(*[hang_up(number) for number in range(50)])
    (answer,) = await peer.upload(make.batch(make.stats()))
    assert answer.state == ACCEPTED
    service = collector._ingest
    for _ in range(100):
        if not service._readers:
            break
        await asyncio.sleep(0.02)
    assert not service._readers
    assert service._room._value == module.ALL_BATCHES
