"""`midwatch diff`: what it prints, of files and of what a collector knows, and how it fails."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis, Verdict
from midwatch.model.incident import CaptureDetail, Incident, IncidentDetail, SpikeDetail
from midwatch.model.requests import RequestRecord
from midwatch.model.spike import Baseline, Spike
from midwatch.trace import summarise
from midwatch_client.cli import build
from midwatch_client.render.diff import diff_markdown
from midwatch_server.diagnosis import Evidence, Report, diagnose
from midwatch_server.diagnosis.diff import compare
from typer.testing import CliRunner

DATA = Path(__file__).parents[1] / "data" / "h200"
GAP, FREE = DATA / "python_gap.json.gz", DATA / "item_free.json.gz"


def diff(*arguments):
    return CliRunner().invoke(build(), ["diff", *map(str, arguments)])


def read(path):
    summary = summarise(path)
    return Report(diagnose(Evidence(summary=summary)), summary=summary, file=str(path))


def test_the_answer_comes_first_and_the_table_after_it():
    result = diff(GAP, FREE)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    answer, _, rest = result.stdout.partition("\n\n")
    assert answer.startswith(
        "B is 5.2 ms (83 %) faster per request, 1.1 ms instead of 6.3 ms; 3.6 ms of it is Python in"
    )
    assert f"A  {GAP}\n   5 requests of request, NVIDIA H200, CUDA 13.0\n" in rest
    assert "gone: host_gap: Python runs in tokenise" in rest
    rows = [line.split() for line in rest.splitlines()]
    assert ["launches", "72", "74", "+2", "more"] in rows
    assert ["request,", "untraced", "6.3", "ms", "1.1", "ms", "-5.2", "ms", "less"] in rows
    assert rest.rstrip().splitlines()[-1] == "Did not change: device busy, copied."


def test_json_is_the_document():
    document = json.loads(diff(GAP, FREE, "--json").stdout)
    assert document["schema"] == "midwatch.diff.v1"
    assert (document["a"]["label"], document["b"]["label"]) == (str(GAP), str(FREE))
    assert document["accounts_for"][0]["what"] == "Python in tokenise (scenarios.py)"


def test_markdown_is_for_a_pull_request():
    lines = diff(GAP, FREE, "--md").stdout.splitlines()
    assert lines[0].startswith("**B is 5.2 ms (83 %) faster per request")
    assert "| launches | 72 | 74 | +2 | more |" in lines
    assert all(line.count(" | ") in (3, 4) for line in lines if line.startswith("| "))


def test_names_from_traces_stay_text_in_markdown():
    report = read(GAP)
    renamed = replace(report.summary, gaps=tuple(replace(gap, site=None, host="python") for gap in report.summary.gaps))
    kernels = tuple(replace(one, family="<script>|*") for one in renamed.kernels)
    report = replace(report, summary=replace(renamed, kernels=kernels))
    text = diff_markdown(compare(report, report, labels=("<b>", "b")))
    assert "| \\<script>\\|\\* kernels | " in text
    assert "<script>" not in text.replace("\\<script>", "")
    assert "- A: \\<b>, 5 requests" in text


def test_a_file_and_a_capture_of_the_collector(script):
    captured = read(FREE)
    capture = Capture("cap-7", "demand", "done", summary=captured.summary)
    script.captures["cap-7"] = CaptureDetail(capture, captured.diagnosis)
    result = diff(GAP, "cap-7", "--json", "--collector", script.address)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["b"]["label"] == "cap-7"
    assert document["accounts_for"][0]["what"] == "Python in tokenise (scenarios.py)"


def test_a_spike_has_no_window(script):
    spike = Spike("sp-1", RequestRecord(1, "/rank", 0, 10), 1.0, "slo", Baseline())
    script.spikes["sp-1"] = SpikeDetail(spike, Diagnosis(Verdict.INSUFFICIENT_DATA))
    result = diff("sp-1", GAP, "--collector", script.address)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "midwatch: A has no window, so there is nothing to compare; choose a capture or a trace\n"


@pytest.mark.parametrize(("name", "said"), [("gone.json", "there is no file gone.json"), ("./x", "there is no file x")])
def test_a_file_that_is_not_there(name, said):
    result = diff(GAP, name)
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], [GAP], [GAP, FREE, "--json", "--md"]])
def test_wrong_usage_is_2(arguments):
    assert diff(*arguments).exit_code == 2


def test_an_incident_stands_for_its_capture_with_all_that_was_found_in_it(script):
    captured = read(GAP)
    capture = Capture("cap-7", "demand", "done", summary=captured.summary)
    finding = captured.diagnosis.findings[-1]
    incident = Incident("inc-1", "v1:0", "reco", "/rank", finding.kind, finding.title, 2, 1, 2, "1.4", finding)
    script.details["inc-1"] = IncidentDetail(incident, (), None, capture)
    script.captures["cap-7"] = CaptureDetail(capture, captured.diagnosis)
    document = json.loads(diff("inc-1", GAP, "--json", "--collector", script.address).stdout)
    assert document["answer"][0].startswith("No difference beyond the spread")
    assert [named["status"] for named in document["findings"]] == ["kept"] * len(captured.diagnosis.findings)
    assert len(document["findings"]) > 1
