"""Raw bytes and texts without end, on every call that there is."""

from __future__ import annotations

import logging

import grpc
import pytest
from midwatch.model.status import AgentStatus, Part
from midwatch_proto.v1 import control_pb2, ingest_pb2, query_pb2, trigger_pb2
from midwatch_server.rpc.gate import Refusals, Refused

INVALID = grpc.StatusCode.INVALID_ARGUMENT
GARBAGE = {"a wrong wire type": b"\xff\xff\xff\xff\x07", "cut short": b"\x0a\x7fabc", "no UTF-8": b"\x0a\x02\xff\xfe"}
LONG = "0123456789abcdef" * 40

METHODS = [
    method
    for module in (ingest_pb2, control_pb2, query_pb2, trigger_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
WITH_IDS = [
    query_pb2.GetIncidentRequest(incident_id=LONG),
    query_pb2.GetCaptureRequest(capture_id=LONG),
    query_pb2.GetSpikeRequest(spike_id=LONG),
    query_pb2.GetTraceRequest(capture_id=LONG),
    trigger_pb2.TriggerRequest(agent_id=LONG),
    trigger_pb2.TriggerRequest(order={"capture_id": LONG}),
    trigger_pb2.TriggerRequest(order={"spike_id": LONG}),
    control_pb2.AgentMessage(hello={"resource": {"agent_id": LONG, "service": "ranker"}}),
    control_pb2.AgentMessage(command_update={"command_id": LONG}),
    ingest_pb2.UploadRequest(batch={"agent_id": LONG, "batch_id": "b"}),
    ingest_pb2.UploadRequest(batch={"agent_id": "a", "batch_id": LONG}),
]


def same(data):
    return data


async def said(peer, method, data):
    """Send raw bytes to a method and return how the call ended."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    call = getattr(peer.channel, kind)(path, same, same)(iter([data]) if method.client_streaming else data)
    answers, error = await answered(call) if method.server_streaming else ([], await failure(call))
    assert answers == []
    return error


async def failure(call):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


async def answered(call):
    """Read a stream that ends with an error; return what came and the error."""
    answers = []
    try:
        async for answer in call:
            answers.append(answer)  # noqa: PERF401 - a comprehension would lose them
    except grpc.aio.AioRpcError as error:
        return answers, error
    raise AssertionError(f"no error after {answers}")


@pytest.fixture
def lines(caplog):
    """The log's lines so far, and no traceback in any."""
    caplog.set_level(logging.INFO)

    def read():
        assert [record for record in caplog.records if record.exc_info] == []
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    return read


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_what_does_not_parse_is_the_senders_fault_on_every_call(peer, lines, garbage):
    for method in METHODS:
        error = await said(peer, method, garbage)
        assert error.code() == INVALID, method.full_name
        assert error.details().startswith("The message does not parse"), method.full_name
    (line,) = lines()
    assert line.startswith("refused a message to /midwatch.v1.IngestService/Upload from ipv4:127.0.0.1:")


@pytest.mark.parametrize("request_", WITH_IDS, ids=lambda one: one.DESCRIPTOR.name)
async def test_an_endless_id_is_refused_and_not_repeated(peer, lines, request_):
    (method,) = [method for method in METHODS if method.input_type.name == request_.DESCRIPTOR.name]
    error = await said(peer, method, request_.SerializeToString())
    assert error.code() == INVALID
    assert "has at most 128 characters; this one has 640." in error.details()
    assert len(lines()) == 1
    assert LONG[:100] not in error.details() + lines()[0]


async def test_batches_before_the_one_that_does_not_parse_are_stored_and_answered(peer, collector, make, lines):
    good = [ingest_pb2.UploadRequest(batch=make.batch(make.stats(), batch_id=f"b{number}")) for number in range(5)]
    raw = [*(one.SerializeToString() for one in good), GARBAGE["cut short"], good[0].SerializeToString()]
    call = peer.channel.stream_stream("/midwatch.v1.IngestService/Upload", same, ingest_pb2.UploadResponse.FromString)(
        iter(raw)
    )
    answers, error = await answered(call)
    assert error.code() == INVALID
    assert [answer.batch_id for answer in answers] == ["b0", "b1", "b2", "b3", "b4"]
    count = collector.store.ask(lambda connection: connection.exec_driver_sql("SELECT count(*) FROM batches").scalar())
    assert count == 5
    assert len(lines()) == 1
    (answer,) = await peer.upload(make.batch(make.stats()))
    assert answer.state == ingest_pb2.BATCH_STATE_ACCEPTED


async def test_a_command_stream_on_which_nonsense_comes_ends_and_others_do_not_notice(peer, make, lines):
    other = await peer.attach(make.resource("other", pid=11))
    hello = control_pb2.AgentMessage(hello=control_pb2.AgentHello(resource={"agent_id": "a", "service": "ranker"}))
    call = peer.channel.stream_stream("/midwatch.v1.ControlService/Attach", same, same)()
    await call.write(hello.SerializeToString())
    assert await call.read() != grpc.aio.EOF
    await call.write(GARBAGE["cut short"])
    assert await call.code() == INVALID
    assert len(lines()) == 1
    listed = await peer.query.ListAgents(query_pb2.ListAgentsRequest(connected_only=True))
    assert [agent.resource.agent_id for agent in listed.agents] == ["other"]
    await other.write(control_pb2.AgentMessage(heartbeat=control_pb2.Heartbeat()))
    assert (await other.read()).WhichOneof("message") == "ping"
    await peer.attach(make.resource("a"))


async def test_an_agent_that_hangs_up_is_no_error(peer, make, lines):
    call = await peer.attach()
    await call.done_writing()
    assert await call.code() == grpc.StatusCode.OK
    (await peer.attach(make.resource("b"))).cancel()
    await peer.attach(make.resource("b"))
    assert lines() == []


async def test_texts_are_stored_cut_and_a_bad_record_costs_itself_alone(peer, collector, make):
    resource = make.resource()
    batch = make.batch(
        make.stats("r" * 50_000), make.spike("s1", route="r" * 50_000), make.capture(detail="d" * 50_000)
    )
    batch.resource.host = "h" * 50_000
    batch.records.add().capture.capture_id = LONG
    batch.records.add().spike.capture_id = LONG
    (answer,) = await peer.upload(batch)
    assert (answer.state, answer.rejected_records) == (ingest_pb2.BATCH_STATE_ACCEPTED, 2)
    assert answer.reason == "capture_id has at most 128 characters; this one has 640"
    await peer.attach(resource, AgentStatus(unix_ns=make.T0 + 1, parts=(Part("gpu", "off", "p" * 50_000),)))
    texts = {
        "agents": ("host", 512),
        "route_stats": ("route", 512),
        "spikes": ("route", 512),
        "incidents": ("route", 512),
    }
    for table, (column, limit) in texts.items():
        query = f"SELECT max(length({column})) FROM {table}"
        longest = collector.store.ask(lambda connection, query=query: connection.exec_driver_sql(query).scalar())
        assert longest == (limit if table != "agents" else len(resource.host)), table
    (listed,) = (await peer.query.ListAgents(query_pb2.ListAgentsRequest())).agents
    assert len(listed.status.parts[0].detail) == 4096
    (capture,) = (await peer.query.ListCaptures(query_pb2.ListCapturesRequest())).captures
    assert len(capture.capture.detail) == 4096


async def test_a_name_without_end_is_not_repeated_to_who_asks_for_it(peer):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await peer.trigger.Trigger(trigger_pb2.TriggerRequest(service="s" * 50_000)).read()
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    assert len(error.value.details()) < 1000


def test_the_log_has_a_line_a_minute_that_counts_the_others(caplog):
    now_s = [0.0]
    refusals = Refusals(lambda: now_s[0])
    for second in range(150):
        now_s[0] = float(second)
        refusals.note("/a/b", "ipv4:1.2.3.4:5", Refused("It does not parse."))
    assert [record.getMessage() for record in caplog.records] == [
        "refused a message to /a/b from ipv4:1.2.3.4:5: It does not parse.",
        "refused a message to /a/b from ipv4:1.2.3.4:5: It does not parse. (59 more since the last such line)",
        "refused a message to /a/b from ipv4:1.2.3.4:5: It does not parse. (59 more since the last such line)",
    ]
