from __future__ import annotations

import math
from dataclasses import replace

import pytest
from midwatch.model.finding import Diagnosis, Verdict
from midwatch.model.samples import GpuSample, HostSample
from midwatch.model.status import AgentStatus
from midwatch.wire import load
from midwatch_proto.v1 import ingest_pb2
from midwatch_server import intake as module
from midwatch_server.errors import BatchRejectedError
from midwatch_server.intake import prepare
from midwatch_server.store import rows
from midwatch_server.store.traces import TraceFiles


@pytest.fixture
def traces(tmp_path):
    return TraceFiles(tmp_path / "traces")


def test_each_kind_of_record_finds_its_place(make, traces):
    records = [
        make.stats(),
        GpuSample(make.T0, 0),
        HostSample(make.T0, 5),
        make.spike(),
        make.capture(),
        AgentStatus(make.T0),
    ]
    records.append(make.chunk("capture-1", 0, b"abc", total=3, last=True))
    found = prepare(make.batch(*records), traces, 99)
    places = (found.route_stats, found.gpu_samples, found.host_samples, found.spike_rows, found.capture_rows)
    assert [len(place) for place in places] == [1] * 5
    assert [row["bytes"] for row in found.trace_rows] == [3]
    assert load(AgentStatus, found.agent["status"]) == AgentStatus(make.T0)
    assert (found.batch["records"], found.batch["rejected_records"], found.batch["received_unix_ns"]) == (7, 0, 99)
    assert len(found.sightings) == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"agent_id": ""}, "needs an agent_id and a batch_id"),
        ({"batch_id": ""}, "needs an agent_id and a batch_id"),
        ({"batch_id": "x" * 129}, "at most 128 characters"),
        ({"agent_id": "other"}, "different agents"),
    ],
)
def test_a_batch_that_says_not_whose_it_is_is_rejected(make, traces, change, reason):
    batch = make.batch(make.stats())
    for name, value in change.items():
        setattr(batch, name, value)
    with pytest.raises(BatchRejectedError, match=reason):
        prepare(batch, traces)


def test_a_batch_without_a_service_is_rejected(make, traces):
    with pytest.raises(BatchRejectedError, match="MIDWATCH_SERVICE"):
        prepare(make.batch(make.stats(), resource=make.resource(service="")), traces)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (lambda make: ingest_pb2.Record(), "kind that this collector does not know"),
        (lambda make: GpuSample(make.T0, 0, utilization=math.nan), "no finite utilization"),
        (lambda make: HostSample(make.T0, 1, cpu_quota=math.inf), "no finite cpu_quota"),
        (lambda make: make.spike(""), "a spike needs an id"),
        (lambda make: make.capture("../../etc/passwd"), "a capture needs an id"),
        (lambda make: make.chunk("capture-1", 5, b"abc", total=9), "missing before offset 5"),
    ],
)
def test_a_bad_record_is_counted_and_the_others_are_kept(make, traces, bad, reason):
    found = prepare(make.batch(make.stats(), bad(make), make.stats("other")), traces)
    assert found.batch["rejected_records"] == 1
    assert reason in found.batch["reason"]
    assert [row["route"] for row in found.route_stats] == ["rank", "other"]


def test_a_diagnosis_that_fails_does_not_cost_the_spike(make, traces, monkeypatch, caplog):
    def broken(_evidence):
        raise ZeroDivisionError("in a rule")

    monkeypatch.setattr(module, "diagnose", broken)
    found = prepare(make.batch(make.spike()), traces)
    diagnosis = load(Diagnosis, found.spike_rows[0]["diagnosis"])
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.INSUFFICIENT_DATA, ())
    assert diagnosis.reason == "It could not be diagnosed; the collector's log says why."
    (line,) = caplog.records
    assert line.getMessage().startswith("spike-1 could not be diagnosed: ZeroDivisionError in test_intake.py:")
    assert line.exc_info is None


def test_a_record_on_which_the_collector_fails_costs_itself_alone(make, traces, monkeypatch, caplog):
    def broken(*_arguments):
        raise ValueError("with a value in it")

    monkeypatch.setattr(rows, "spike_row", broken)
    found = prepare(make.batch(make.stats(), make.spike(), make.capture()), traces)
    assert (len(found.route_stats), len(found.capture_rows), found.batch["rejected_records"]) == (1, 1, 1)
    assert found.batch["reason"] == "the collector failed on this record; its log says how"
    (line,) = caplog.records
    assert line.getMessage().startswith("a spike of agent agent-1 cannot be stored: ValueError in test_intake.py:")
    assert line.exc_info is None


def test_a_capture_without_a_summary_says_why(make, traces):
    refused = make.capture(state="refused", detail="another profiler runs")
    silent = make.capture("c2", state="empty")
    rows = prepare(make.batch(refused, silent), traces).capture_rows
    assert [load(Diagnosis, row["diagnosis"]).reason for row in rows] == [
        "another profiler runs",
        "The window was empty.",
    ]


def test_a_spike_that_comes_twice_in_a_batch_is_one(make, traces):
    found = prepare(make.batch(make.spike(), replace(make.spike(), capture_id="c")), traces)
    assert [row["capture_id"] for row in found.spike_rows] == ["c"]
