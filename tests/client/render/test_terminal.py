"""A report on a terminal, compared whole."""

import dataclasses
import io
from pathlib import Path

import pytest
from midwatch.model.finding import Diagnosis, Verdict
from midwatch_client.render.html import to_html
from midwatch_client.render.markdown import to_markdown
from midwatch_client.render.terminal import print_report, report_lines
from midwatch_server.diagnosis import Report
from rich.console import Console

GOLDEN = Path(__file__).parent / "golden"


def printed(report, width=90, **options):
    out = io.StringIO()
    print_report(report, Console(file=out, width=width, highlight=False, **options))
    return out.getvalue()


def test_a_capture_at_a_glance(capture_report):
    assert printed(capture_report) == (GOLDEN / "capture.txt").read_text()


def test_an_incident_at_a_glance(incident_report, utc):
    assert printed(incident_report) == (GOLDEN / "incident.txt").read_text()


@pytest.mark.parametrize("width", [40, 60, 90, 200])
def test_no_line_is_wider_than_the_terminal_and_no_place_is_broken(capture_report, width):
    lines = [line.plain for line in report_lines(capture_report, width)]
    assert max(len(line) for line in lines) <= width
    assert any("(app/metrics.py:41)" in line for line in lines)
    assert not any(line != line.rstrip() for line in lines)


def test_colours_only_on_a_terminal_that_wants_them(capture_report, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" not in printed(capture_report)
    assert "\x1b[1;31m" in printed(capture_report, force_terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in printed(capture_report, force_terminal=True)


def test_brackets_in_names_are_no_markup(capture_report):
    finding = dataclasses.replace(capture_report.diagnosis.findings[0], title="float32[8,128] in [bold]f[/bold]")
    report = Report(Diagnosis(Verdict.FINDINGS, (finding,)))
    assert "hot_sync: float32[8,128] in [bold]f[/bold]" in printed(report)


def test_a_clean_verdict_says_why():
    text = printed(Report(Diagnosis(Verdict.CLEAN, reason="Device-bound."), file="t.json"))
    assert text == "t.json\n\nClean. Device-bound.\n"


def test_a_verdict_of_a_newer_collector_is_shown_as_one(capture_report):
    newer = dataclasses.replace(capture_report.diagnosis, verdict=Verdict.UNKNOWN)
    report = dataclasses.replace(capture_report, diagnosis=newer)
    for text in (printed(report), to_markdown(report), str(to_html([report]))):
        assert "A verdict that this version does not know" in text


def test_a_line_that_no_sample_saw_is_not_said_to_have_been_seen(capture_report):
    finding = capture_report.diagnosis.findings[0]
    near = dataclasses.replace(finding, site=dataclasses.replace(finding.site, exact=False))
    text = " ".join(printed(Report(Diagnosis(Verdict.FINDINGS, (near,)))).split())
    assert "record_confidence in app/metrics.py (near line 41; no stack sample fell on the line itself)" in text
    assert "was seen" not in text


def test_names_from_a_trace_do_not_steer_the_terminal(capture_report):
    named = dataclasses.replace(capture_report.diagnosis.findings[0], title="kernel \x1b]0;mine\x07\u202e")
    diagnosis = dataclasses.replace(capture_report.diagnosis, findings=(named,))
    lines = [line.plain for line in report_lines(dataclasses.replace(capture_report, diagnosis=diagnosis), 100)]
    assert any(r"kernel \x1b]0;mine\x07\u202e" in line for line in lines)
    assert not any("\x1b" in line for line in lines)
