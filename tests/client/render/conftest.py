"""One hand-made report with everything in it, so that whole outputs can be compared."""

import dataclasses

import pytest
from midwatch.model.finding import Advice, Diagnosis, Finding, GraphCandidate, Kind, Verdict
from midwatch.model.incident import Incident, Occurrence
from midwatch.model.requests import RequestRecord
from midwatch.model.resource import Resource
from midwatch.model.site import Site
from midwatch.model.spike import Baseline, Spike
from midwatch.model.trace import Caveat, DeviceFacts, Lane, Timeline, TraceSummary, Window
from midwatch_server.diagnosis import Report

WINDOW = Window(0, 62.4, "ledger", 6, 2, ("host_ops", "runtime", "device", "samples"), 0.5)
DEVICE = DeviceFacts(
    present=True, names=("NVIDIA H200",), busy_ms=30.0, idle_ms=30.0, launches=980, kernels=980, small_kernels=900,
    syncs=14, copies=1,
)  # fmt: skip
TIMELINE = Timeline(
    12.0,
    8.0,
    (
        Lane("host", "host", (100, 100, 0, 0, 50, 100)),
        Lane("waits", "wait", (0, 0, 100, 100, 0, 0)),
        Lane("device", "device", (5, 10, 100, 100, 20, 30)),
    ),
)
HOT_SYNC = Finding(
    kind=Kind.HOT_SYNC,
    title="`.item()` in record_confidence (app/metrics.py:41) makes the host wait 2.6 ms in every request while 240 "
    "launches follow",
    site=Site("app/metrics.py", 41, "record_confidence", "app.metrics", exact=True, how="sample", callee="item"),
    per_request_ms=2.6,
    share_of_request=0.5,
    recoverable_ms=1.3,
    occurrences_per_request=1.0,
    requests_affected=6,
    confidence=0.9,
    evidence=("cudaStreamSynchronize: 6 waits, 15.6 ms traced", "The device worked for 15.0 ms of the 15.6 ms"),
    advice=(
        Advice("Read it once, after the last launch", "What follows is launched late", "The route's p50"),
        Advice("Read it every Nth request", "The others do not wait then", "The route's p50"),
    ),
)
LAUNCH_BOUND = Finding(
    kind=Kind.LAUNCH_BOUND,
    title="163 launches of mostly tiny kernels in 5 of 6 requests leave the device idle for 1.0 ms of 5.2 ms",
    site=Site("app/model.py", 21, "forward", "app.model", exact=False, how="python_function"),
    per_request_ms=1.0,
    share_of_request=0.2,
    recoverable_ms=0.5,
    occurrences_per_request=163.0,
    requests_affected=5,
    confidence=0.8,
    caveats=("Shares idle time with the findings above: all of them together gain 1.5 ms at most",),
    graph_candidate=GraphCandidate(False, "shapes change", 0.0, ("changing_shapes",)),
)
NOTE = dataclasses.replace(
    HOT_SYNC,
    title="`.cpu()` in reply (app/serve.py:9) makes the host wait 0.10 ms in every request",
    per_request_ms=0.1,
    share_of_request=0.02,
    recoverable_ms=0.03,
    evidence=(),
)


def make_capture_report():
    diagnosis = Diagnosis(
        Verdict.FINDINGS,
        (HOT_SYNC, LAUNCH_BOUND),
        (NOTE,),
        (Caveat("untraced", "Judging by the ledger, the profiler made requests take 2.00 times as long."),),
    )
    summary = TraceSummary(window=WINDOW, device=DEVICE, request_p50_ms=10.4, timeline=TIMELINE)
    return Report(diagnosis, summary=summary, file="trace.json.gz")


def make_incident_report():
    lock = Finding(
        kind=Kind.LOCK_WAIT,
        title="The request waited 400 ms for lock `RANKS` at rerank (app/ranker.py:88)",
        site=Site("app/ranker.py", 88, "rerank", "app.ranker", exact=True, how="sample"),
        per_request_ms=400.0,
        share_of_request=0.8,
        recoverable_ms=400.0,
        occurrences_per_request=1.0,
        requests_affected=1,
        confidence=0.9,
        evidence=("Explains 83 % of the 480 ms by which the request overran its usual 20.0 ms",),
        related_site=Site("app/cache.py", 120, "refresh", "app.cache", exact=True, how="sample"),
        share_of_overrun=0.83,
    )
    seconds = 1_000_000_000
    incident = Incident(
        "inc-1", "v1:0", "reco", "/rank", Kind.LOCK_WAIT, lock.title, 2, seconds, 90 * seconds, "1.4", lock
    )
    occurrences = tuple(Occurrence(f"o{at}", "inc-1", at * seconds, "a1", lock, spike_id=f"sp-{at}") for at in (90, 1))
    request = RequestRecord(7, "/rank", seconds, 500_000_000, thread_id=1)
    return Report(
        Diagnosis(Verdict.FINDINGS, (lock,)),
        spike=Spike("sp-90", request, 100.0, "sketch", Baseline(1000, 20.0, 30.0, 40.0)),
        resource=Resource("a1", "reco", "1.4", host="gpu-3", pid=4711, torch="2.13.0", cuda="13.0"),
        incident=incident,
        occurrences=occurrences,
    )


@pytest.fixture
def capture_report():
    return make_capture_report()


@pytest.fixture
def incident_report():
    return make_incident_report()


@pytest.fixture
def utc(monkeypatch):
    """Moments are printed in local time."""
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
