from __future__ import annotations

import asyncio

import grpc
import pytest
from midwatch.model.finding import Kind
from midwatch.wire import from_message
from midwatch_proto.v1 import finding_pb2, query_pb2
from midwatch_server.errors import StoreUnavailableError
from midwatch_server.rpc import hub as hub_module
from midwatch_server.store import Stored

NOT_FOUND, INVALID = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT


async def error_of(call):
    answer = call.read() if hasattr(call, "read") else call
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await answer
    return error.value.code(), error.value.details()


async def test_what_show_needs_of_an_incident(peer, make):
    await peer.upload(make.batch(make.spike(), make.capture(spike_id="spike-1")))
    (listed,) = (await peer.query.ListIncidents(query_pb2.ListIncidentsRequest())).incidents
    answer = await peer.query.GetIncident(query_pb2.GetIncidentRequest(incident_id=listed.incident_id[:5]))
    detail = from_message(answer.incident)
    assert detail.incident == from_message(listed)
    assert (detail.spike, detail.capture) == (make.spike(), make.capture(spike_id="spike-1"))
    assert detail.resource == make.resource()
    assert [seen.capture_id for seen in detail.occurrences] == ["capture-1"]


async def test_captures_and_spikes_can_be_listed_and_fetched(peer, make):
    await peer.upload(make.batch(make.spike(), make.spike("plain", explained=False), make.capture()))
    captures = (await peer.query.ListCaptures(query_pb2.ListCapturesRequest(service="ranker"))).captures
    assert [one.capture.capture_id for one in captures] == ["capture-1"]
    assert not captures[0].capture.HasField("summary")
    capture = (await peer.query.GetCapture(query_pb2.GetCaptureRequest(capture_id="capture-1"))).capture
    assert from_message(capture).capture == make.capture()
    spikes = (await peer.query.ListSpikes(query_pb2.ListSpikesRequest(unexplained_only=True))).spikes
    assert [one.spike.spike_id for one in spikes] == ["plain"]
    spike = (await peer.query.GetSpike(query_pb2.GetSpikeRequest(spike_id="spike-1"))).spike
    assert from_message(spike).spike == make.spike()


async def test_incidents_can_be_filtered_by_kind(peer, make):
    await peer.upload(make.batch(make.spike()))
    for kind, number in ((finding_pb2.KIND_GC_PAUSE, 1), (finding_pb2.KIND_HOT_SYNC, 0)):
        found = await peer.query.ListIncidents(query_pb2.ListIncidentsRequest(kind=kind))
        assert len(found.incidents) == number


async def test_questions_without_an_answer_say_why(peer, make):
    await peer.upload(make.batch(make.spike("ab1"), make.spike("ab2"), make.capture()))
    query = peer.query
    code, details = await error_of(query.GetIncident(query_pb2.GetIncidentRequest(incident_id="zz")))
    assert (code, details) == (NOT_FOUND, "There is no incident zz.")
    code, details = await error_of(query.GetSpike(query_pb2.GetSpikeRequest(spike_id="ab")))
    assert (code, details) == (INVALID, "ab fits more than one spike; give more of the id.")
    assert (await error_of(query.GetCapture(query_pb2.GetCaptureRequest())))[0] == INVALID
    assert (await error_of(query.ListSpikes(query_pb2.ListSpikesRequest(limit=-1))))[0] == INVALID
    code, details = await error_of(query.ListIncidents(query_pb2.ListIncidentsRequest(kind=999)))
    assert code == INVALID
    assert "older than the one who asks" in details
    code, details = await error_of(query.GetTrace(query_pb2.GetTraceRequest(capture_id="capture-1")))
    assert code == NOT_FOUND
    assert "The raw trace of capture capture-1 is not here" in details
    assert (await error_of(query.GetTrace(query_pb2.GetTraceRequest(capture_id="nope"))))[0] == NOT_FOUND


async def test_a_call_that_fails_inside_tells_nothing_of_it(peer, collector, monkeypatch, caplog):
    def broken(*_args, **_kwargs):
        raise RuntimeError("secret inside")

    monkeypatch.setattr(collector.store, "ask", broken)
    code, details = await error_of(peer.query.ListIncidents(query_pb2.ListIncidentsRequest()))
    assert (code, details) == (grpc.StatusCode.INTERNAL, "The collector failed on this call; its log says how.")
    assert "secret inside" in caplog.text


async def test_a_trace_on_its_way_can_be_waited_for(peer, make):
    await peer.upload(make.batch(make.capture()))
    call = peer.query.GetTrace(query_pb2.GetTraceRequest(capture_id="capture", wait_seconds=30.0))
    asked = asyncio.ensure_future(call.read())
    await peer.upload(make.batch(make.chunk("capture-1", 0, b"abc", total=3, last=True)))
    assert (await asyncio.wait_for(asked, 10)).data == b"abc"


async def test_waiting_for_a_trace_ends(peer, make):
    await peer.upload(make.batch(make.capture()))
    call = peer.query.GetTrace(query_pb2.GetTraceRequest(capture_id="capture-1", wait_seconds=0.05))
    assert (await error_of(call))[0] == NOT_FOUND


async def test_sightings_are_seen_as_they_are_stored_after_those_since(peer, make):
    await peer.upload(make.batch(make.spike("old", at_ns=make.T0), make.spike("older", at_ns=make.T0 - 5)))
    call = peer.query.WatchIncidents(query_pb2.WatchIncidentsRequest(since_unix_ns=make.T0 - 1))
    first = await call.read()
    assert (first.incident.count, first.occurrence.spike_id) == (2, "old")
    await peer.upload(make.batch(make.spike("new", at_ns=make.T0 + 5), make.spike("new", at_ns=make.T0 + 5)))
    seen = await asyncio.wait_for(call.read(), 10)
    assert (seen.incident.count, seen.occurrence.spike_id) == (3, "new")
    assert from_message(seen.incident).kind is Kind.GC_PAUSE
    call.cancel()


async def test_watching_can_be_narrowed(peer, make):
    since = {"since_unix_ns": 1}
    await peer.upload(make.batch(make.spike()))
    mine = peer.query.WatchIncidents(query_pb2.WatchIncidentsRequest(service="ranker", **since))
    sync = peer.query.WatchIncidents(query_pb2.WatchIncidentsRequest(kind=finding_pb2.KIND_HOT_SYNC, **since))
    assert (await mine.read()).occurrence.spike_id == "spike-1"
    nothing = asyncio.ensure_future(sync.read())
    await peer.upload(make.batch(make.spike("s2", route="other")))
    assert (await mine.read()).occurrence.spike_id == "s2"
    assert not nothing.done()
    nothing.cancel()


async def test_who_reads_too_slowly_is_sent_away(monkeypatch):
    monkeypatch.setattr(hub_module, "BACKLOG", 3)
    hub = hub_module.Hub()
    with hub.subscribe(lambda _stored: True) as news:
        for number in range(10):
            hub.publish(Stored(str(number)))
        assert [(await news.next()).batch_id for _ in range(3)] == ["0", "1", "2"]
        with pytest.raises(StoreUnavailableError, match="too slowly"):
            await news.next()
        assert hub.subscriptions == set()
