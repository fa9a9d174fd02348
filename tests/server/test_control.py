from __future__ import annotations

import asyncio

import grpc
import pytest
from midwatch.model.capture import CaptureOrder
from midwatch.model.status import AgentStatus
from midwatch.wire import from_message, to_message
from midwatch_proto.v1 import control_pb2, ingest_pb2, query_pb2, trigger_pb2
from midwatch_server.app import Collector
from midwatch_server.rpc import control, trigger
from midwatch_server.settings import CollectorSettings

State = trigger_pb2.TriggerState
EOF = grpc.aio.EOF


def update(command_id, state, **rest):
    made = control_pb2.CommandUpdate(
        command_id=command_id, state=getattr(control_pb2, f"COMMAND_STATE_{state}"), **rest
    )
    return control_pb2.AgentMessage(command_update=made)


def order(peer, **request):
    return peer.trigger.Trigger(trigger_pb2.TriggerRequest(**request))


async def state_of(call):
    event = await call.read()
    return State.Name(event.state).removeprefix("TRIGGER_STATE_")


async def received(stream):
    message = await asyncio.wait_for(stream.read(), 10)
    assert message.WhichOneof("message") == "order", message
    return message.order


async def ended(call):
    """The code with which a stream ends, whatever still comes before."""
    try:
        while await asyncio.wait_for(call.read(), 10) is not EOF:
            pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    return await call.code()


async def test_an_order_goes_to_the_agent_and_its_news_to_who_asked(peer, make):
    stream = await peer.attach()
    asked = to_message(CaptureOrder("", "", seconds=0.5, deep=True, route="rank"))
    call = order(peer, service="ranker", order=asked)
    assert await state_of(call) == "QUEUED"
    got = await received(stream)
    assert await state_of(call) == "SENT"
    value = from_message(got.order)
    assert (value.reason, value.seconds, value.deep, value.route) == ("demand", 0.5, True, "rank")
    assert got.command_id == value.command_id != ""
    for state in ("OPEN", "DONE"):
        await stream.write(update(got.command_id, state, detail=state.lower()))
        event = await call.read()
        assert (State.Name(event.state), event.detail) == (f"TRIGGER_STATE_{state}", state.lower())
    assert from_message(event.agent) == make.resource()
    await peer.upload(make.batch(make.capture(value.capture_id, command_id=value.command_id)))
    event = await call.read()
    assert (event.state, event.capture_id) == (trigger_pb2.TRIGGER_STATE_STORED, value.capture_id)
    assert await call.read() is EOF
    assert await call.code() == grpc.StatusCode.OK


async def test_what_an_agent_says_again_on_a_new_stream_is_told_once(peer, make):
    stream = await peer.attach()
    call = order(peer)
    got = await received(stream)
    for state in ("OPEN", "DONE", "OPEN", "DONE", "FAILED"):
        await stream.write(update(got.command_id, state))
    assert [await state_of(call) for _ in range(5)] == ["QUEUED", "SENT", "OPEN", "DONE", "FAILED"]


@pytest.mark.parametrize(("state", "last"), [("REFUSED", "REFUSED"), ("FAILED", "FAILED")])
async def test_what_the_agent_will_not_do_is_the_last_word(peer, state, last):
    stream = await peer.attach()
    call = order(peer)
    got = await received(stream)
    await stream.write(update(got.command_id, state, detail="a profiler of the service's own runs"))
    assert [await state_of(call) for _ in range(2)] == ["QUEUED", "SENT"]
    event = await call.read()
    assert (State.Name(event.state), event.detail) == (f"TRIGGER_STATE_{last}", "a profiler of the service's own runs")
    assert await call.read() is EOF


@pytest.mark.parametrize(("state", "last"), [("refused", "REFUSED"), ("failed", "FAILED"), ("empty", "FAILED")])
async def test_a_stored_capture_that_came_to_nothing_says_so(peer, make, state, last):
    stream = await peer.attach()
    call = order(peer)
    got = await received(stream)
    await peer.upload(make.batch(make.capture("c9", state=state, command_id=got.command_id, detail="why")))
    assert [await state_of(call) for _ in range(3)] == ["QUEUED", "SENT", last]


async def test_the_order_names_whom_it_is_for(peer, make):
    first = await peer.attach(make.resource("a1", pid=1))
    second = await peer.attach(make.resource("a2", pid=2))
    other = await peer.attach(make.resource("a3", service="other", pid=3))
    for request, stream in [
        ({"service": "ranker", "pid": 2}, second),
        ({"agent_id": "a1"}, first),
        ({"service": "other"}, other),
        ({"host": "host-a", "pid": 3}, other),
    ]:
        call = order(peer, **request)
        await received(stream)
        call.cancel()


async def test_among_several_the_busiest_is_asked(peer, make):
    await peer.attach(make.resource("a1"), AgentStatus(make.T0, requests=500))
    busy = await peer.attach(make.resource("a2"), AgentStatus(make.T0, requests=10, in_flight=3))
    await peer.attach(make.resource("a3"))
    call = order(peer, service="ranker")
    await received(busy)
    call.cancel()


async def test_no_agent_that_fits_is_not_found_and_says_who_is_there(peer, make):
    call = order(peer, service="nobody")
    assert await ended(call) == grpc.StatusCode.NOT_FOUND
    assert "MIDWATCH_COLLECTOR" in await call.details()
    await peer.attach()
    call = order(peer, service="nobody", pid=7)
    assert await ended(call) == grpc.StatusCode.NOT_FOUND
    details = await call.details()
    assert details == ("No agent of service nobody, process 7 is connected. Connected: ranker (host-a, process 10).")


@pytest.mark.parametrize(
    "request_",
    [
        {"order": to_message(CaptureOrder("", "", seconds=-1.0))},
        {"order": to_message(CaptureOrder("", "", seconds=1e9))},
        {"order": to_message(CaptureOrder("", "", seconds=float("nan")))},
        {"order": to_message(CaptureOrder("", "", requests=-1))},
        {"order": to_message(CaptureOrder("../x", ""))},
        {"timeout_seconds": -1.0},
        {"timeout_seconds": 1e6},
    ],
)
async def test_orders_that_make_no_sense_are_refused(peer, request_):
    await peer.attach()
    assert await ended(order(peer, **request_)) == grpc.StatusCode.INVALID_ARGUMENT


async def test_an_order_without_bounds_gets_some(peer):
    stream = await peer.attach()
    call = order(peer)
    got = await received(stream)
    assert got.order.requests == trigger.DEFAULT_REQUESTS
    call.cancel()


async def test_who_waits_too_long_is_told(peer):
    stream = await peer.attach()
    call = order(peer, timeout_seconds=0.05)
    await received(stream)
    assert [await state_of(call) for _ in range(2)] == ["QUEUED", "SENT"]
    event = await call.read()
    assert event.state == trigger_pb2.TRIGGER_STATE_FAILED
    assert "within 0 s" not in event.detail
    assert "has stored no capture" in event.detail


async def test_an_agent_that_goes_away_is_told_and_may_come_back(peer, make, monkeypatch):
    stream = await peer.attach()
    call = order(peer)
    got = await received(stream)
    await stream.done_writing()
    assert await ended(stream) == grpc.StatusCode.OK
    stream = await peer.attach()
    await stream.write(update(got.command_id, "DONE"))
    await peer.upload(make.batch(make.capture(got.order.capture_id)))
    assert [await state_of(call) for _ in range(4)] == ["QUEUED", "SENT", "DONE", "STORED"]
    monkeypatch.setattr(trigger, "GONE_S", 0.05)
    call = order(peer)
    await received(stream)
    stream.cancel()
    assert [await state_of(call) for _ in range(2)] == ["QUEUED", "SENT"]
    event = await asyncio.wait_for(call.read(), 10)
    assert "went away" in event.detail


async def test_an_agent_that_attaches_twice_replaces_the_first(peer):
    first = await peer.attach()
    second = await peer.attach()
    assert await ended(first) == grpc.StatusCode.ABORTED
    call = order(peer)
    await received(second)
    call.cancel()
    found = await peer.query.ListAgents(query_pb2.ListAgentsRequest(connected_only=True))
    assert [view.resource.agent_id for view in found.agents] == ["agent-1"]


async def test_heartbeats_are_answered_and_kept(peer, make):
    stream = await peer.attach()
    beat = control_pb2.Heartbeat(status=to_message(AgentStatus(make.T0, requests=77, drops=(("full", 2),))))
    await stream.write(control_pb2.AgentMessage(heartbeat=beat))
    assert (await stream.read()).WhichOneof("message") == "ping"
    (view,) = (await peer.query.ListAgents(query_pb2.ListAgentsRequest())).agents
    assert view.connected
    assert from_message(view.status) == AgentStatus(make.T0, requests=77, drops=(("full", 2),))
    await stream.done_writing()
    assert await ended(stream) == grpc.StatusCode.OK
    (view,) = (await peer.query.ListAgents(query_pb2.ListAgentsRequest())).agents
    assert not view.connected
    assert view.status.requests == 77
    assert not (await peer.query.ListAgents(query_pb2.ListAgentsRequest(connected_only=True))).agents


@pytest.mark.parametrize(
    "message",
    [
        control_pb2.AgentMessage(heartbeat=control_pb2.Heartbeat()),
        control_pb2.AgentMessage(),
        control_pb2.AgentMessage(hello=control_pb2.AgentHello()),
    ],
)
async def test_an_agent_introduces_itself_first(peer, message):
    call = peer.control.Attach()
    await call.write(message)
    assert await ended(call) == grpc.StatusCode.INVALID_ARGUMENT


async def test_an_agent_that_says_nothing_is_sent_away(peer, monkeypatch):
    monkeypatch.setattr(control, "HELLO_S", 0.05)
    call = peer.control.Attach()
    assert await ended(call) == grpc.StatusCode.INVALID_ARGUMENT


async def test_news_of_orders_that_nobody_waits_for_do_no_harm(peer):
    stream = await peer.attach()
    await stream.write(update("unknown", "DONE"))
    await stream.write(control_pb2.AgentMessage(command_update=control_pb2.CommandUpdate(command_id="x", state=99)))
    await stream.write(control_pb2.AgentMessage(heartbeat=control_pb2.Heartbeat()))
    assert (await stream.read()).WhichOneof("message") == "ping"


async def test_who_hangs_up_loses_the_reports_and_not_the_order(peer):
    stream = await peer.attach()
    call = order(peer)
    assert await state_of(call) == "QUEUED"
    call.cancel()
    await received(stream)


async def test_stopping_ends_held_streams_at_once(tmp_path, peer_of, make):
    collector = Collector(CollectorSettings(str(tmp_path / "midwatch.db"), "127.0.0.1:0"))
    await collector.start()
    peer = peer_of(collector)
    stream = await peer.attach()
    uploading = peer.ingest.Upload()
    await uploading.write(ingest_pb2.UploadRequest(batch=make.batch(make.spike())))
    assert (await uploading.read()).state == ingest_pb2.BATCH_STATE_ACCEPTED
    watching = peer.query.WatchIncidents(query_pb2.WatchIncidentsRequest(since_unix_ns=1))
    assert (await watching.read()).incident.count == 1
    waiting = order(peer)
    await received(stream)
    began = asyncio.get_running_loop().time()
    await collector.stop()
    assert asyncio.get_running_loop().time() - began < 2.5
    for call in (stream, waiting, watching, uploading):
        assert await ended(call) == grpc.StatusCode.UNAVAILABLE
    await peer.channel.close()


async def test_agents_that_hang_up_while_the_collector_stops_leave_no_traceback(tmp_path, peer_of, make, caplog):
    for turn in range(3):
        collector = Collector(CollectorSettings(str(tmp_path / f"{turn}.db"), "127.0.0.1:0"))
        await collector.start()
        peer = peer_of(collector)
        for number in range(8):
            await peer.attach(make.resource(f"agent-{number}"))
        await peer.channel.close()
        await collector.stop()
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
