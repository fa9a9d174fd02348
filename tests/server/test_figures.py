"""Figures that cannot be true, in every field of every record that an agent may send."""

from __future__ import annotations

import logging
import math

import grpc
import pytest
from midwatch.model.requests import LatencySketch
from midwatch.model.samples import GpuSample, HostSample
from midwatch.model.status import AgentStatus
from midwatch.wire import to_message
from midwatch_proto.v1 import control_pb2, ingest_pb2, query_pb2, requests_pb2
from midwatch_server.errors import FigureError
from midwatch_server.figures import MOST_FACTS, MOST_ITEMS, MOST_STARTS, checked

NEVER = {"double": (math.nan, math.inf, -math.inf, -1e300, 1e300), "int64": (-(2**63), 2**63 - 1)}
"""By kind of field: what is true of no service that ever was, whatever the field says."""
YEAR_1971, YEAR_2200 = 31_536_000 * 10**9, 7_258_118_400 * 10**9


def numbers(descriptor, path=()):
    """Yield the path of every number in a message, with the kind of its field."""
    for field in descriptor.fields:
        if field.message_type is not None:
            yield from numbers(field.message_type, (*path, field.name))
        elif field.type == field.TYPE_DOUBLE:
            yield (*path, field.name), "double"
        elif field.type in (field.TYPE_INT64, field.TYPE_SINT64):
            yield (*path, field.name), "int64"


def put(message, path, figure):
    """Set the figure at a path; what is missing on the way is made."""
    *outer, last = path
    inner = message
    for name in outer:
        inner = getattr(inner, name)
        inner = (inner[0] if len(inner) else inner.add()) if hasattr(inner, "add") else inner
    listed = getattr(inner, last)
    if hasattr(listed, "append"):
        listed.append(figure)
    else:
        setattr(inner, last, figure)


def records(make):
    """One good record of each kind."""
    values = {
        "route_stats": make.stats(),
        "gpu_sample": GpuSample(make.T0, 0),
        "host_sample": HostSample(make.T0, 10),
        "spike": make.spike(),
        "capture": make.capture(),
        "agent_status": AgentStatus(make.T0),
    }
    return {name: ingest_pb2.Record(**{name: to_message(value)}) for name, value in values.items()}


FIGURES = [
    (path, kind)
    for path, kind in numbers(ingest_pb2.Record.DESCRIPTOR)
    if path[0] != "trace_chunk" and not path[-1].endswith(("_id", "_ident"))
]


def changed(make, path, figure):
    record = ingest_pb2.Record()
    record.CopyFrom(records(make)[path[0]])
    put(record, path, figure)
    return record


def said(make, path, figure):
    with pytest.raises(FigureError) as error:
        checked(changed(make, path.split("."), figure), "it")
    return str(error.value)


def test_good_records_pass(make):
    for record in records(make).values():
        checked(record, "it")


def test_no_figure_is_left_out(make):
    assert len(FIGURES) > 250
    for path, kind in FIGURES:
        for figure in NEVER[kind]:
            with pytest.raises(FigureError, match=path[1]):
                checked(changed(make, path, figure), "it")


@pytest.mark.parametrize(
    ("path", "figure", "sentence"),
    [
        ("spike.deadline_ms", math.nan, "no finite spike.deadline_ms"),
        ("capture.summary.waits.max_ms", math.inf, "no finite capture.summary.waits.max_ms"),
        ("capture.summary.gaps.count", -1, "an impossible capture.summary.gaps.count, -1"),
        ("capture.ready_ms", -5.0, "an impossible capture.ready_ms, -5"),
        ("capture.summary.timeline.lanes.cells", 101, "an impossible capture.summary.timeline.lanes.cells, 101"),
        ("capture.summary.time.share", 1.5, "an impossible capture.summary.time.share, 1.5"),
        ("spike.request.duration_ns", 2**60, "an impossible spike.request.duration_ns, 1.15292e+18"),
        ("gpu_sample.utilization", -2.0, "an impossible gpu_sample.utilization, -2"),
        ("spike.request.start_unix_ns", 0, "outside of the years 2020 to 2099; set the clock of its host"),
        ("spike.request.start_unix_ns", YEAR_1971, "outside of the years 2020 to 2099; set the clock of its host"),
        ("agent_status.unix_ns", YEAR_2200, "outside of the years 2020 to 2099; set the clock of its host"),
        ("route_stats.sketch.alpha", 1.0, "a route_stats.sketch whose buckets contradict"),
        ("route_stats.sketch.count", 9, "a route_stats.sketch whose buckets contradict"),
        ("route_stats.sketch.buckets.index", 10**6, "a route_stats.sketch whose buckets contradict"),
        ("route_stats.sketch.buckets.count", 0, "a route_stats.sketch whose buckets contradict"),
        ("route_stats.sketch.min_ns", 10**9, "a route_stats.sketch whose buckets contradict"),
    ],
)
def test_the_reason_names_the_figure(make, path, figure, sentence):
    assert sentence in said(make, path, figure)


@pytest.mark.parametrize(
    ("path", "figure"),
    [
        ("gpu_sample.utilization", -1.0),  # the device does not give it
        ("capture.start_unix_ns", 0),  # a window that was never opened
        ("capture.summary.gaps.starts_ms", -0.5),  # before the window
        ("capture.summary.gaps.recoverable_ms", -1e-9),  # a difference
        ("capture.summary.window.start_unix_ns", 10**9),  # another recorder's clock
        ("spike.request.thread_ident", 2**63 - 1),
        ("spike.request.duration_ns", 90 * 86_400 * 10**9),  # a request that hangs for a season
    ],
)
def test_what_is_odd_and_true_passes(make, path, figure):
    checked(changed(make, path.split("."), figure), "it")


def test_a_sketch_is_taken_as_the_agent_makes_it(make):
    empty = LatencySketch(0.01, 0, 0, 0, 0)
    checked(to_message(empty), "it")
    shuffled = to_message(make.stats().sketch)
    shuffled.buckets.add(index=3, count=1)
    shuffled.count += 1
    with pytest.raises(FigureError, match="contradict"):
        checked(shuffled, "it")
    assert not requests_pb2.LatencySketch().alpha


def test_what_must_be_there_is_missed(make):
    with pytest.raises(FigureError, match=r"request\.start_unix_ns"):
        checked(ingest_pb2.Record(spike={"spike_id": "s"}).spike, "a spike")


def test_lists_have_an_end(make):
    summary, spike = records(make)["capture"].capture.summary, records(make)["spike"].spike
    for message, name, most in (
        (summary, "kernels", MOST_FACTS),
        (spike, "units", MOST_ITEMS),
        (summary.gc[0], "starts_ms", MOST_STARTS),
    ):
        listed = getattr(message, name)
        one = spike.units.add(start_unix_ns=make.T0) if name == "units" else 1.0 if name == "starts_ms" else None
        while len(listed) < most:
            listed.append(one) if one is not None else listed.add()
        checked(message, "it")
        listed.append(one) if one is not None else listed.add()
        with pytest.raises(FigureError, match=f"it has {most + 1} {name}, and at most {most} are taken"):
            checked(message, "it")


async def test_a_bad_figure_costs_its_record_alone_and_no_traceback(peer, make, caplog):
    caplog.set_level(logging.INFO)
    chosen = [(path, NEVER[kind][0]) for path, kind in FIGURES]
    batches = [
        make.batch(make.stats("before"), changed(make, path, figure), make.spike(f"s{number}"))
        for number, (path, figure) in enumerate(chosen)
    ]
    answers = await peer.upload(*batches)
    for answer, (path, _) in zip(answers, chosen, strict=True):
        assert (answer.state, answer.rejected_records) == (ingest_pb2.BATCH_STATE_ACCEPTED, 1), path
        assert path[0].replace("_", " ") in answer.reason
    assert len((await peer.query.ListSpikes(query_pb2.ListSpikesRequest(limit=1000))).spikes) == len(chosen)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_process_that_cannot_be_is_told_so_on_either_stream(peer, make):
    batch = make.batch(make.stats())
    batch.resource.start_unix_ns = YEAR_2200
    (answer,) = await peer.upload(batch)
    assert answer.state == ingest_pb2.BATCH_STATE_REJECTED
    assert answer.reason.startswith("a resource has a start_unix_ns outside of the years")
    stream = await peer.attach()
    await stream.write(control_pb2.AgentMessage(heartbeat={"status": {"unix_ns": YEAR_2200}}))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await stream.read()
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.details().startswith("a heartbeat has a status.unix_ns outside of the years")
