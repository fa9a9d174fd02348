"""Figures that cannot be true, in every field of every record that an agent may send."""

from __future__ import annotations

import logging
import math
import sys
from dataclasses import replace

import pytest
from midwatch.model.requests import LatencySketch
from midwatch.model.samples import GpuSample, HostSample, StackSample
from midwatch.model.site import Frame
from midwatch.model.status import AgentStatus
from midwatch.requests.sketch import Sketch
from midwatch.wire import from_message, to_message
from midwatch_proto.v1 import control_pb2, ingest_pb2, query_pb2, requests_pb2, status_pb2, trigger_pb2
from midwatch_server.errors import FigureError
from midwatch_server.figures import MOST_FACTS, MOST_ITEMS, MOST_STARTS, checked
from midwatch_server.reasons import MOST_KEPT, Reasons

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


def dated(item):
    """An item is nothing without its moment."""
    for name in ("unix_ns", "start_unix_ns"):
        if name in item.DESCRIPTOR.fields_by_name:
            setattr(item, name, 1_700_000_000 * 10**9)
    return item


def put(message, path, figure):
    """Set the figure at a path; what is missing on the way is made."""
    *outer, last = path
    inner = message
    for name in outer:
        inner = getattr(inner, name)
        inner = (inner[0] if len(inner) else dated(inner.add())) if hasattr(inner, "add") else inner
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


NEEDED = {
    ("route_stats",): ("start_unix_ns", "end_unix_ns", "requests", "errors", "warmup", "spikes"),
    ("route_stats", "sketch"): ("alpha", "count", "sum_ns", "min_ns", "max_ns"),
    ("route_stats", "sketch", "buckets"): ("index", "count"),
    ("gpu_sample",): ("unix_ns", "device"),
    ("host_sample",): ("unix_ns", "interval_ns"),
    ("spike", "request"): ("start_unix_ns",),
    ("agent_status",): ("unix_ns",),
}
"""What series are made of, and what other records are dated by."""


def changed(make, path, figure):
    record = ingest_pb2.Record()
    record.CopyFrom(records(make).get(path[0], record))
    put(record, path, figure)
    return record


def said(make, path, figure):
    with pytest.raises(FigureError) as error:
        checked(changed(make, path.split("."), figure), "it")
    return str(error.value)


def left_out(make, path, figure):
    """Check that a figure is left out as if it had not been told, and that this is said; return the message."""
    record, untold = changed(make, path, figure), ingest_pb2.Record()
    mended = checked(record, "it")
    assert mended.count == 1, path
    assert ".".join(path) in mended.first
    untold.CopyFrom(record)
    assert checked(untold, "it").count == 0
    return record, mended


def test_good_records_pass(make):
    for record in records(make).values():
        before = record.SerializeToString(deterministic=True)
        assert checked(record, "it").count == 0
        assert record.SerializeToString(deterministic=True) == before


def test_no_figure_is_left_unseen(make):
    assert len(FIGURES) > 250
    refused = set()
    for path, kind in FIGURES:
        for figure in NEVER[kind]:
            if not math.isfinite(figure):
                assert f"no finite {'.'.join(path)}" in said(make, ".".join(path), figure)
                continue
            if path[-1] in NEEDED.get(path[:-1], ()):
                assert path[1] in said(make, ".".join(path), figure)
                refused.add(path)
            else:
                left_out(make, path, figure)
    assert refused == {(*path, name) for path, names in NEEDED.items() for name in names}


@pytest.mark.parametrize(
    ("path", "figure", "sentence"),
    [
        ("spike.deadline_ms", math.nan, "no finite spike.deadline_ms"),
        ("capture.summary.waits.max_ms", math.inf, "no finite capture.summary.waits.max_ms"),
        ("spike.request.start_unix_ns", 0, "outside of the years 2020 to 2099; set the clock of its host"),
        ("host_sample.unix_ns", YEAR_1971, "outside of the years 2020 to 2099; set the clock of its host"),
        ("gpu_sample.device", -1, "an impossible gpu_sample.device, -1"),
        ("route_stats.requests", -1, "an impossible route_stats.requests, -1"),
        ("route_stats.sketch.alpha", 1.0, "a route_stats.sketch whose buckets contradict"),
        ("route_stats.sketch.count", 9, "a route_stats.sketch whose buckets contradict"),
        ("route_stats.sketch.buckets.index", 10**6, "a route_stats.sketch whose buckets contradict"),
        ("route_stats.sketch.buckets.count", 0, "a route_stats.sketch whose buckets contradict"),
        ("route_stats.sketch.min_ns", 10**9, "a route_stats.sketch whose buckets contradict"),
        ("route_stats.sketch.sum_ns", 161 * 10**6, "a route_stats.sketch whose buckets contradict"),
        ("route_stats.sketch.sum_ns", 7 * 10**6, "a route_stats.sketch whose buckets contradict"),
        ("trace_chunk.offset", -1, "an impossible trace_chunk.offset, -1"),
    ],
)
def test_what_would_poison_a_sum_is_refused_with_its_reason(make, path, figure, sentence):
    assert sentence in said(make, path, figure)


@pytest.mark.parametrize(
    ("path", "figure", "known"),
    [
        ("capture.summary.gaps.count", -1, 0),
        ("capture.ready_ms", -5.0, 0.0),
        ("capture.summary.time.share", 1.5, 0.0),
        ("capture.summary.device.queue_depth_mean", -0.004, 0.0),  # agents of 0.1 told such
        ("spike.request.cpu_ns", -3, 0),
        ("spike.request.duration_ns", 2**60, 0),
        ("spike.gc.frames.line", -1, 0),
        ("gpu_sample.utilization", -2.0, -1.0),
        ("gpu_sample.temperature_c", -5, -1),
        ("capture.start_unix_ns", YEAR_1971, 0),
    ],
)
def test_one_odd_figure_is_as_if_it_had_not_been_told(make, path, figure, known):
    path = path.split(".")
    record, mended = left_out(make, path, figure)
    value = from_message(getattr(record, path[0]))
    for name in path[1:]:
        value = getattr(value, name)
        value = value[0] if isinstance(value, tuple) else value
    assert value == known
    assert [caveat.code for caveat in mended.caveats()] == ["figures_left_out"]


def test_of_lists_goes_what_is_nothing_without_its_figure(make):
    spike = records(make)["spike"].spike
    for unix_ns in (make.T0, YEAR_1971, make.T0 + 1):
        spike.samples.add(unix_ns=unix_ns, weight_ns=-1)
    lane = records(make)["capture"].capture.summary.timeline.lanes.add(cells=[50, 101, 100])
    gaps = records(make)["capture"].capture.summary.gaps.add(starts_ms=[1.0, 1e300, -0.5])
    assert [checked(message, "it").count for message in (spike, lane, gaps)] == [3, 1, 1]
    assert [(one.unix_ns, one.weight_ns) for one in spike.samples] == [(make.T0, 0), (make.T0 + 1, 0)]
    assert (list(lane.cells), list(gaps.starts_ms)) == ([50, 0, 100], [1.0, -0.5])


@pytest.mark.parametrize("wrong_ns", [40 * 10**9, 1_560_000_000 * 10**9, YEAR_2200])
def test_evidence_of_a_host_without_a_clock_is_dated_by_its_reception(make, wrong_ns):
    now_ns = make.T0 + 10**15
    spike, capture = records(make)["spike"].spike, records(make)["capture"].capture
    spike.request.start_unix_ns, spike.gc[0].start_unix_ns = wrong_ns, wrong_ns + 10 * make.MS
    spike.samples.add(unix_ns=wrong_ns + 20 * make.MS)
    capture.start_unix_ns, capture.end_unix_ns, capture.ordered_unix_ns = wrong_ns + 3, wrong_ns + 5, wrong_ns
    status = to_message(AgentStatus(wrong_ns))
    for message in (spike, capture, status):
        mended = checked(message, "it", now_ns)
        assert (mended.count, mended.redated) == (0, True)
        assert [caveat.code for caveat in mended.caveats()] == ["clock_not_set"]
    began_ns = now_ns - spike.request.duration_ns
    assert spike.request.start_unix_ns == began_ns
    assert spike.gc[0].start_unix_ns == began_ns + 10 * make.MS
    assert spike.samples[0].unix_ns == began_ns + 20 * make.MS
    assert (capture.ordered_unix_ns, capture.start_unix_ns, capture.end_unix_ns) == (now_ns - 5, now_ns - 2, now_ns)
    assert status.unix_ns == now_ns


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
    assert checked(changed(make, path.split("."), figure), "it").count == 0


def test_the_sum_of_a_sketch_may_be_longer_than_any_duration(make):
    sketch = Sketch()
    for _ in range(4000):
        sketch.add(86_400 * 10**9)
    checked(to_message(sketch.freeze()), "it")


def test_looking_at_a_record_takes_less_than_reading_it(make):
    """Counted in calls rather than seconds: each text that is looked at would be one."""
    frames = tuple(Frame(f"app/m{number}.py", number + 1, "f", "app.m", "c") for number in range(40))
    samples = tuple(StackSample(make.T0, 1, 1, "t", "request", frames, 5) for _ in range(96))
    message = to_message(replace(make.spike(), samples=samples))

    def calls(function):
        seen = 0

        def count(_frame, event, _arg):
            nonlocal seen
            seen += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            function()
        finally:
            sys.setprofile(None)
        return seen

    checked(message, "it")
    assert calls(lambda: checked(message, "it")) < calls(lambda: from_message(message))


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


async def test_a_bad_figure_costs_at_most_its_record_and_no_traceback(peer, make, caplog):
    caplog.set_level(logging.INFO)
    chosen = [(path, NEVER[kind][0]) for path, kind in FIGURES]
    batches = [
        make.batch(make.stats("before"), changed(make, path, figure), make.spike(f"s{number}"))
        for number, (path, figure) in enumerate(chosen)
    ]
    answers = await peer.upload(*batches)
    refused = 0
    for answer, (path, figure) in zip(answers, chosen, strict=True):
        assert answer.state == ingest_pb2.BATCH_STATE_ACCEPTED, path
        assert answer.rejected_records == bool(answer.reason)
        assert answer.rejected_records or math.isfinite(figure)
        assert not answer.reason or path[0].replace("_", " ") in answer.reason
        refused += answer.rejected_records
    assert 0 < refused < len(chosen)
    assert len((await peer.query.ListSpikes(query_pb2.ListSpikesRequest(limit=1000))).spikes) == len(chosen) + 1
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_what_was_left_out_is_said_in_the_report_and_in_the_log(peer, make, caplog):
    spike, capture = make.spike("s1"), make.capture("c1", ready_ms=-5.0)
    spike = replace(spike, request=replace(spike.request, cpu_ns=-3))
    (answer,) = await peer.upload(make.batch(spike, capture))
    assert answer.rejected_records == 0
    found = await peer.query.GetSpike(query_pb2.GetSpikeRequest(spike_id="s1"))
    text = "1 figure could not be true and was left out: an impossible request.cpu_ns, -3"
    assert text in [caveat.text for caveat in found.spike.diagnosis.caveats]
    assert len(found.spike.diagnosis.findings) == 1
    found = await peer.query.GetCapture(query_pb2.GetCaptureRequest(capture_id="c1"))
    for told in (found.capture.diagnosis, found.capture.capture):
        assert "figures_left_out" in [caveat.code for caveat in told.caveats]
    assert f"agent agent-1 (ranker on host-a, process 10): of a spike: {text}" in caplog.messages


async def test_the_log_has_the_reason_of_what_was_refused_once_a_minute(peer, make, caplog):
    for number in range(3):
        batch = make.batch(HostSample(40 * 10**9 + number, 10), GpuSample(make.T0, -1 - number))
        (answer,) = await peer.upload(batch)
        assert answer.rejected_records == 2
    lines = [line for line in caplog.messages if "refused" in line]
    assert len(lines) == 2
    assert all(
        line.startswith("agent agent-1 (ranker on host-a, process 10): a record was refused: ") for line in lines
    )
    assert "set the clock of its host" in lines[0]
    assert "an impossible device, -1" in lines[1]


async def test_a_process_that_started_before_its_clock_was_set_is_taken_on_both_streams(peer, make):
    early = replace(make.resource(), start_unix_ns=40 * 10**9)
    (answer,) = await peer.upload(make.batch(make.stats(), make.spike(), resource=early))
    assert (answer.state, answer.rejected_records) == (ingest_pb2.BATCH_STATE_ACCEPTED, 0)
    stream = await peer.attach(early, AgentStatus(40 * 10**9, requests=5))
    (view,) = (await peer.query.ListAgents(query_pb2.ListAgentsRequest())).agents
    assert (view.connected, view.resource.start_unix_ns, view.status.requests) == (True, 0, 5)
    # A status of the year 2200 would never be replaced, had it that date.
    for requests, unix_ns in ((6, YEAR_2200), (7, make.T0)):
        await stream.write(control_pb2.AgentMessage(heartbeat={"status": {"unix_ns": unix_ns, "requests": requests}}))
        assert (await stream.read()).WhichOneof("message") == "ping"
        (view,) = (await peer.query.ListAgents(query_pb2.ListAgentsRequest())).agents
        assert (view.status.requests, view.status.unix_ns < YEAR_2200) == (requests, True)


async def test_a_status_that_cannot_be_taken_costs_itself_and_not_the_stream(peer, make, caplog):
    stream = await peer.attach(None, AgentStatus(make.T0, requests=5))
    status = to_message(AgentStatus(make.T0, requests=6))
    status.parts.extend([status_pb2.Part(name="p")] * (MOST_ITEMS + 1))
    await stream.write(control_pb2.AgentMessage(heartbeat={"status": status}))
    assert (await stream.read()).WhichOneof("message") == "ping"
    (view,) = (await peer.query.ListAgents(query_pb2.ListAgentsRequest())).agents
    assert (view.connected, view.status.requests) == (True, 5)
    assert f"a status was refused: a status has {MOST_ITEMS + 1} parts" in caplog.text


async def test_an_order_whose_capture_is_refused_ends_as_failed_with_the_reason(peer, make):
    stream = await peer.attach()
    call = peer.trigger.Trigger(trigger_pb2.TriggerRequest(timeout_seconds=60))
    order = (await stream.read()).order
    capture = make.capture(order.order.capture_id, command_id=order.command_id, stop_ms=math.nan)
    (answer,) = await peer.upload(make.batch(capture))
    assert answer.rejected_records == 1
    events = [event async for event in call]
    assert events[-1].state == trigger_pb2.TRIGGER_STATE_FAILED
    assert events[-1].detail == "the collector refused it: a capture has no finite stop_ms"
    query = query_pb2.GetCaptureRequest(capture_id=order.order.capture_id)
    stored = (await peer.query.GetCapture(query)).capture
    assert (stored.capture.state, stored.capture.detail) == ("failed", events[-1].detail)


def test_reasons_are_said_anew_after_a_minute_and_names_without_end_do_not_fill_the_log(caplog):
    now_s = [0.0]
    reasons = Reasons(lambda: now_s[0])
    for _ in range(3):
        reasons.note("agent a", "it is 5")
    now_s[0] = 61.0
    reasons.note("agent a", "it is 6")
    assert caplog.messages == ["agent a: it is 5", "agent a: it is 6 (2 more since the last such line)"]
    for number in range(2 * MOST_KEPT):
        reasons.note(f"agent b{'b' * number}", "it")
    assert len(caplog.messages) <= MOST_KEPT + 3
