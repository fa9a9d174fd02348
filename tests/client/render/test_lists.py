"""Lists, and reports from what the collector returns."""

import dataclasses
import io

import pytest
from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis, Verdict
from midwatch.model.incident import CaptureDetail, IncidentDetail, SpikeDetail
from midwatch.model.site import Site
from midwatch.model.trace import Caveat, GapFacts, RequestFacts, TraceSummary, Window
from midwatch_client.render import sources
from midwatch_client.render.tables import incidents_table
from midwatch_client.render.wording import ago, costs, facts, note
from midwatch_server.diagnosis import Evidence, Report, diagnose
from rich.console import Console

S = 1_000_000_000


def test_incidents_are_listed_with_what_and_when(incident_report):
    out = io.StringIO()
    Console(file=out, width=120).print(incidents_table([incident_report.incident], 390 * S))
    row = out.getvalue().splitlines()[3]
    assert row.split() == (
        ["inc-1", "5", "min", "ago", "2", "reco", "/rank", "lock_wait", "400", "ms", "app/ranker.py:88", "rerank"]
    )


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_a_place_stays_whole_however_narrow_the_terminal_is(incident_report, width):
    """Its path is cut on the left; the name of the file and the line are what a person looks for."""
    file = "shop/post_processing_of_ranked_results.py"
    site = Site(file, 12345, "record_confidence", exact=True)
    finding = dataclasses.replace(incident_report.incident.latest, site=site)
    incident = dataclasses.replace(incident_report.incident, latest=finding, incident_id="0123456789abcdef")
    out = io.StringIO()
    Console(file=out, width=width).print(incidents_table([incident, incident_report.incident], 390 * S))
    words = out.getvalue().split()
    places = [word for word in words if word.endswith(":12345")]
    assert len(places) == 1
    assert f"{file}:12345".endswith(places[0].removeprefix("…").removeprefix("/"))
    assert (places[0] == f"{file}:12345") == (width >= 100)
    assert len(places[0]) >= 25
    assert {"app/ranker.py:88", "rerank", "record_confidence", "/rank", "reco", "0123456789ab"} <= set(words)


def test_an_incident_without_a_place_is_listed_by_its_title(incident_report):
    out = io.StringIO()
    nowhere = dataclasses.replace(incident_report.incident, latest=None)
    Console(file=out, width=160).print(incidents_table([nowhere], 0))
    assert nowhere.title in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s ago"), (180, "3 min ago"), (7200, "2 h ago"), (259_200, "3 d ago")],
)
def test_how_long_ago(seconds, text):
    assert ago(0, seconds * S) == text


def test_a_capture_s_report_holds_its_summary(capture_report):
    capture = Capture("c1", "demand", "done", summary=capture_report.summary)
    report = sources.of_capture(CaptureDetail(capture, capture_report.diagnosis, has_raw_trace=True))
    assert report.summary is capture_report.summary
    assert report.has_raw_trace


def test_an_incident_s_report_is_its_latest_finding(incident_report):
    detail = IncidentDetail(incident_report.incident, incident_report.occurrences, spike=incident_report.spike)
    assert sources.of_incident(detail).diagnosis.findings == (incident_report.incident.latest,)


def test_a_spike_s_report_is_its_diagnosis(incident_report):
    report = sources.of_spike(SpikeDetail(incident_report.spike, Diagnosis(Verdict.INSUFFICIENT_DATA, reason="why")))
    assert report.diagnosis.reason == "why"
    assert report.spike is incident_report.spike


def test_counts_of_one_finding_refer_to_the_same_requests():
    """The title says ``in 2 of 4 requests of /rank``: what it costs must not count those of other routes too."""
    requests = tuple(RequestFacts(route, 10.0 * i, 5.0) for i, route in enumerate(("/rank", "/views") * 4))
    gap = GapFacts("python", 1, 4.0, 4.0, 2, 3.0, 3.0, site=Site("app.py", 1, "f", exact=True), starts_ms=(1.0,))
    window = Window(0, 80.0, "ledger", 8, 0, ("host_ops", "python"))
    summary = TraceSummary(window=window, requests=requests, gaps=(gap,), request_p50_ms=5.0)
    diagnosis = diagnose(Evidence(summary=summary))
    (finding,) = (*diagnosis.findings, *diagnosis.notes)
    report = Report(diagnosis, summary)
    assert "for 3.0 ms in 2 of 4 requests of /rank" in finding.title
    assert costs(finding, report) == "3.0 ms per affected request (60 % of it), 2 of 4 of /rank"
    assert finding.evidence[0] == "1 gap shared by 2 requests, 4.0 ms traced in all"
    every = dataclasses.replace(finding, requests_affected=4)
    assert costs(every, report) == "3.0 ms per request (60 % of it), all 4 of /rank"


def test_an_idle_window_is_not_called_unmarked():
    idle = Caveat("idle", "The agent saw no request in this window.")
    report = Report(Diagnosis(Verdict.INSUFFICIENT_DATA), TraceSummary(window=Window(0, 1001.0, caveats=(idle,))))
    assert facts(report) == [("window", "1,001 ms, no request served in it")]


@pytest.mark.parametrize(("gain_ms", "told"), [(0.03, " (without it: 0.03 ms less)"), (0.00001, ""), (0.0, "")])
def test_a_note_tells_its_gain_only_where_there_is_one(capture_report, gain_ms, told):
    finding = dataclasses.replace(capture_report.diagnosis.notes[0], recoverable_ms=gain_ms)
    assert note(finding) == f"hot_sync: {finding.title}{told}"
