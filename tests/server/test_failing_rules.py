"""A rule that raises costs what it would have found, and a line in the log; `show` says so."""

from __future__ import annotations

import io
import itertools

import pytest
from midwatch.model.finding import Kind, Verdict
from midwatch.wire import from_message
from midwatch_client.render import sources
from midwatch_client.render.markdown import to_markdown
from midwatch_client.render.terminal import print_report
from midwatch_proto.v1 import query_pb2
from midwatch_server.diagnosis import Evidence, diagnose, judge
from rich.console import Console


class Broken:
    """Finds what the rule that it replaces finds first, and then fails."""

    def __init__(self, rule):
        self.kind = rule.kind
        self._rule = rule

    def find(self, evidence):
        yield from itertools.islice(self._rule.find(evidence), 1)
        raise ZeroDivisionError(f"with a value of {evidence}")


def broken(*which):
    return tuple(Broken(rule) if rule in which else rule for rule in judge.RULES)


def printed(report):
    console = Console(file=io.StringIO(), width=110)
    print_report(report, console)
    return " ".join(console.file.getvalue().split())


@pytest.mark.parametrize("rule", judge.RULES, ids=lambda rule: type(rule).__name__)
def test_the_other_rules_say_what_they_found(rule, make, monkeypatch):
    for evidence in (Evidence(summary=make.capture().summary), Evidence(spike=make.spike())):
        whole = diagnose(evidence)
        assert [finding.kind for finding in whole.findings] == [Kind.GC_PAUSE]
        with monkeypatch.context() as patch:
            patch.setattr(judge, "RULES", broken(rule))
            partly = diagnose(evidence)
        assert (partly.findings, partly.notes) == (whole.findings, whole.notes)
        (caveat,) = set(partly.caveats) - set(whole.caveats)
        assert (caveat.code, caveat.count) == ("rule_failed", 1)
        assert f"a rule failed on it, {rule.kind.value} (ZeroDivisionError in test_failing_rules.py:" in caveat.text
        assert "with a value" not in caveat.text


def test_nothing_is_clean_while_rules_fail(make, monkeypatch):
    monkeypatch.setattr(judge, "RULES", tuple(Broken(rule) for rule in judge.RULES if rule.kind is not Kind.GC_PAUSE))
    for evidence in (Evidence(summary=make.capture().summary), Evidence(spike=make.spike())):
        diagnosis = diagnose(evidence)
        assert (diagnosis.verdict, diagnosis.findings) == (Verdict.INSUFFICIENT_DATA, ())
        assert diagnosis.reason.startswith("Not all of it could be diagnosed: 13 rules failed on it, recompile (Zero")
    both = diagnose(Evidence(summary=make.capture().summary, spike=make.spike()))
    assert [caveat.code for caveat in both.caveats].count("rule_failed") == 1


async def test_what_could_not_be_diagnosed_is_stored_and_shown_as_such(peer, make, monkeypatch, caplog):
    monkeypatch.setattr(judge, "RULES", broken(*judge.RULES[1:]))
    await peer.upload(make.batch(make.capture(), make.spike()))
    lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line.partition(":")[0] for line in lines] == ["capture-1", "spike-1"]
    monkeypatch.undo()
    capture = await peer.query.GetCapture(query_pb2.GetCaptureRequest(capture_id="capture-1"))
    spike = await peer.query.GetSpike(query_pb2.GetSpikeRequest(spike_id="spike-1"))
    for report in (
        sources.of_capture(from_message(capture.capture)),
        sources.of_spike(from_message(spike.spike)),
    ):
        for text in (printed(report), to_markdown(report)):
            assert "1 finding" in text
            assert "Not all of it could be diagnosed: 13 rules failed on it" in text
    (incident,) = (await peer.query.ListIncidents(query_pb2.ListIncidentsRequest())).incidents
    assert incident.count == 2


async def test_a_diagnosis_that_fails_as_a_whole_is_shown_as_such(peer, make, monkeypatch):
    monkeypatch.setattr(judge, "window_caveats", lambda _evidence: 1 / 0)
    await peer.upload(make.batch(make.capture()))
    found = await peer.query.GetCapture(query_pb2.GetCaptureRequest(capture_id="capture-1"))
    report = sources.of_capture(from_message(found.capture))
    assert report.capture.summary == make.capture().summary
    assert "Not enough data. It could not be diagnosed; the collector's log says why." in printed(report)
