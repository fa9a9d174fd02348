"""The Python client against a real gRPC server: values in, values out, and errors in one sentence."""

from pathlib import Path

import grpc
import pytest
from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis, Finding, Kind, Verdict
from midwatch.model.incident import CaptureDetail, Incident, IncidentDetail, Occurrence, SpikeDetail
from midwatch.model.requests import RequestRecord
from midwatch.model.resource import Resource
from midwatch.model.site import Site
from midwatch.model.spike import Baseline, Spike
from midwatch.model.status import AgentStatus, AgentView, Part
from midwatch.wire.codec import to_message
from midwatch_client.api import Client, CollectorError, NotFoundError, Progress, addressing
from midwatch_proto.v1 import query_pb2, trigger_pb2

RESOURCE = Resource("a1", "ranker", host="h", pid=7)
FINDING = Finding(Kind.GC_PAUSE, "gc", Site("a/b.py", 3, "f", exact=True), 100.0, 0.9, 99.0, 1.0, 2, 0.9)
INCIDENT = Incident("inc1", "v1:x", "ranker", "/rank", Kind.GC_PAUSE, "gc", 4, 1, 2, latest=FINDING)
CAPTURE = CaptureDetail(Capture("cap1", "demand", "done"), Diagnosis(Verdict.CLEAN), RESOURCE, has_raw_trace=True)
REQUEST = RequestRecord(1, "/rank", 5, 6)
SPIKE = SpikeDetail(Spike("spi1", REQUEST, 10.0, "slo", Baseline()), Diagnosis(Verdict.FINDINGS, (FINDING,)))


def test_lists_come_back_as_the_values_that_were_stored(script, client):
    status = AgentStatus(5, parts=(Part("gpu", "unavailable", "no NVML"),))
    script.agents = [AgentView(RESOURCE, status, connected=True)]
    script.incidents = [INCIDENT]
    assert client.agents("ranker", connected_only=True) == tuple(script.agents)
    assert script.asked[-1].connected_only
    assert client.incidents(kind=Kind.GC_PAUSE, since_unix_ns=9, limit=3) == (INCIDENT,)
    asked = script.asked[-1]
    assert (asked.since_unix_ns, asked.limit) == (9, 3)
    assert asked.kind == to_message(FINDING).kind


def test_one_thing_by_a_prefix_of_its_id(script, client):
    script.details["inc1"] = IncidentDetail(INCIDENT, (Occurrence("o1", "inc1", 5, "a1", FINDING),), resource=RESOURCE)
    script.captures["cap1"], script.spikes["spi1"] = CAPTURE, SPIKE
    assert client.incident("in") == script.details["inc1"]
    assert client.capture("ca") == CAPTURE
    assert client.spike("sp") == SPIKE
    with pytest.raises(NotFoundError, match="nothing by the id zz"):
        client.capture("zz")


def test_a_trace_is_written_whole_or_not_at_all(script, client, tmp_path: Path):
    script.pieces = [b"ab", b"cde"]
    target = tmp_path / "trace.json.gz"
    assert client.trace("cap1", target) == 5
    assert target.read_bytes() == b"abcde"
    script.pieces = []
    with pytest.raises(CollectorError, match="MIDWATCH_RAW_TRACES"):
        client.trace("cap1", tmp_path / "other.json.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json.gz"]


def step(state: int, detail: str = "") -> trigger_pb2.TriggerEvent:
    return trigger_pb2.TriggerEvent(state=state, detail=detail, capture_id="cap1", agent=to_message(RESOURCE))


def test_a_profile_waits_until_the_capture_is_stored(script, client):
    script.captures["cap1"] = CAPTURE
    script.steps = [step(trigger_pb2.TRIGGER_STATE_QUEUED), step(trigger_pb2.TRIGGER_STATE_STORED)]
    seen: list[Progress] = []
    assert client.profile("ranker", requests=20, deep=True, on_progress=seen.append) == CAPTURE
    assert [one.state for one in seen] == ["queued", "stored"]
    assert seen[0].agent == RESOURCE
    order = next(asked for asked in script.asked if isinstance(asked, trigger_pb2.TriggerRequest))
    assert (order.service, order.order.requests, order.order.deep, order.order.reason) == ("ranker", 20, True, "demand")


def test_a_refused_profile_says_why(script, client):
    script.steps = [step(trigger_pb2.TRIGGER_STATE_REFUSED, "a profiler of the service's own is at work")]
    with pytest.raises(CollectorError, match="profiler of the service's own"):
        client.profile("ranker")


def test_sightings_come_as_they_are_stored(script, client):
    script.sightings = [
        query_pb2.WatchIncidentsResponse(incident=to_message(INCIDENT)),
        query_pb2.WatchIncidentsResponse(
            incident=to_message(INCIDENT), occurrence=to_message(Occurrence("o1", "inc1", 5, "a1", FINDING))
        ),
    ]
    first, second = client.watch_incidents("ranker", since_unix_ns=1)
    assert (first.incident, first.occurrence) == (INCIDENT, None)
    assert second.occurrence.finding == FINDING


def test_the_token_travels(script):
    with Client(script.address, token="secret") as client:
        client.agents()
    assert script.metadata["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("code", "detail", "said"),
    [
        (grpc.StatusCode.UNIMPLEMENTED, "", "no collector of this version"),
        (grpc.StatusCode.UNAUTHENTICATED, "the token is wrong; set MIDWATCH_TOKEN", "the token is wrong"),
        (grpc.StatusCode.INTERNAL, "", "see its log"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", "did not answer in time"),
    ],
)
def test_every_refusal_is_a_sentence(script, client, code: grpc.StatusCode, detail: str, said: str):
    script.refusal = (code, detail)
    with pytest.raises(CollectorError, match=said):
        client.agents()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("no-such-host.invalid:7171", "the host name 'no-such-host.invalid' does not resolve"),
        ("256.1.1.1:7171", "the host name '256.1.1.1' does not resolve"),
        ("http://127.0.0.1:7171", "is no address of a collector: give host:port"),
        ("127.0.0.1:port", "is no address of a collector: give host:port"),
        ("127.0.0.1", "is no address of a collector: give host:port"),
        ("", "is no address of a collector: give host:port"),
        ("127.0.0.1:1", "no collector at 127.0.0.1:1; start one with `midwatch collector`"),
        ("[::1]:1", "no collector at [::1]:1; start one with `midwatch collector`"),
    ],
)
def test_an_address_that_leads_nowhere_is_told_from_a_collector_that_does_not_run(address, said):
    with pytest.raises(CollectorError) as failed, Client(address, timeout_s=5.0) as client:
        client.agents()
    assert said in str(failed.value)


@pytest.mark.parametrize(
    "detail",
    [
        "DNS resolution failed for reco:7171: C-ares status is not ARES_SUCCESS",
        "errors resolving reco:7171: [field:hostname lookup error:address lookup failed]",
        "Address lookup failed for reco:7171: Name or service not known",
    ],
)
def test_every_grpc_has_words_of_its_own_for_a_name_that_does_not_resolve(detail):
    assert "does not resolve" in addressing("reco:7171", detail)


def test_a_state_that_only_a_newer_collector_knows_is_passed_over(script, client):
    script.captures["cap"] = CaptureDetail(Capture("cap", "demand", "done"), Diagnosis(Verdict.CLEAN))
    script.steps = [
        trigger_pb2.TriggerEvent(state=state, capture_id="cap") for state in (77, trigger_pb2.TRIGGER_STATE_STORED)
    ]
    seen = []
    assert client.profile("ranker", on_progress=seen.append).capture.capture_id == "cap"
    assert [step.state for step in seen] == ["unknown", "stored"]
