"""A report for a ticket, compared whole."""

from dataclasses import replace
from pathlib import Path

from midwatch_client.render.markdown import to_markdown

GOLDEN = Path(__file__).parent / "golden"


def test_a_capture_as_markdown(capture_report):
    assert to_markdown(capture_report) == (GOLDEN / "capture.md").read_text()


def test_an_incident_names_the_holder_of_the_lock(incident_report, utc):
    text = to_markdown(incident_report)
    assert "- **held by**: app/cache.py:120 in refresh" in text
    assert "- seen: 2 times, first 1970-01-01 00:00:01 UTC, last 1970-01-01 00:01:30 UTC" in text


def test_names_from_a_trace_are_no_markup(capture_report):
    finding = capture_report.diagnosis.findings[0]
    named = replace(finding, title="Python in <module> (a*b.py)\x1b[31m", evidence=("<script>|",))
    diagnosis = replace(capture_report.diagnosis, findings=(named,))
    text = to_markdown(replace(capture_report, diagnosis=diagnosis))
    assert r"### 1. hot_sync: Python in \<module> (a\*b.py)\\x1b\[31m" in text
    assert "- evidence: \\<script>\\|" in text
