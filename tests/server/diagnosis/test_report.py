"""The document that programs read: complete, plain, and as documented."""

import dataclasses
import json
import re
from pathlib import Path

from midwatch.model.capture import Capture
from midwatch.model.finding import Kind
from midwatch.model.incident import Incident, Occurrence
from midwatch.model.resource import Resource
from midwatch.model.samples import GcPause
from midwatch.model.site import Site
from midwatch.model.trace import GapFacts, Lane, TimeFacts, Timeline
from midwatch.model.workload import Workload
from midwatch_server.diagnosis import Evidence, Report, diagnose, document, documents

DOCUMENTED = set(re.findall(r"`([a-z0-9_]+)`", (Path(__file__).parents[3] / "docs" / "report.md").read_text()))

# Values that the agent sends are passed on as they are; their fields are documented with the model.
PASSED_ON = {"request", "baseline", "units", "gpu", "host", "devices"}


def full_report(make):
    gap = GapFacts("python", 10, 49.0, 5.2, 10, 4.9, 4.8, site=Site("app.py", 3, "tokenise"))
    pause = GcPause(make.START, 400 * make.MS, 2, 0, 1, 1, explicit=False)
    summary = dataclasses.replace(
        make.window(gaps=(gap,)),
        timeline=Timeline(1.0, 10.0, (Lane("host", "host", (0, 50, 100)),)),
        time=(TimeFacts("idle", 0.4, 4.0, 12, "batcher", Site("app.py", 62, "collect")),),
        workload=Workload(("float32[8,64]@cpu",), 8),
    )
    spike = make.spike(500, gc=(pause,), samples=make.samples(400, 500, make.frame("rank")))
    diagnosis = diagnose(Evidence(summary=summary, spike=spike))
    finding = diagnosis.findings[0]
    return Report(
        diagnosis,
        summary=summary,
        file="trace.json.gz",
        capture=Capture("c1", "demand", "done", summary=summary),
        spike=spike,
        resource=Resource("a1", "reco"),
        incident=Incident("i1", "v1:0", "reco", "/rank", Kind.GC_PAUSE, finding.title, 3, 1, 2, latest=finding),
        occurrences=(Occurrence("o1", "i1", 2, "a1", finding, spike_id="s1"),),
        has_raw_trace=True,
    )


def keys(plain):
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield key
            if key not in PASSED_ON:
                yield from keys(value)
    elif isinstance(plain, list):
        for item in plain:
            yield from keys(item)


def test_every_key_is_documented(make):
    assert set(keys(document(full_report(make)))) - DOCUMENTED == set()


def test_a_report_has_the_same_keys_whatever_is_known(make):
    full, bare = document(full_report(make)), document(Report(diagnose(Evidence())))
    assert list(full) == list(bare)
    assert bare["window"] is bare["device"] is bare["spike"] is bare["file"] is None


def test_the_document_is_plain_json_with_the_figures_of_the_finding(make):
    read = json.loads(json.dumps(document(full_report(make)), allow_nan=False))
    assert read["schema"] == "midwatch.report.v1"
    assert read["verdict"] == "findings"
    assert [finding["kind"] for finding in read["findings"]] == ["gc_pause", "host_gap"]
    assert read["findings"][1]["site"] == {
        "file": "app.py", "line": 3, "function": "tokenise", "module": "", "exact": False, "how": "", "callee": "",
    }  # fmt: skip
    assert read["window"]["duration_ms"] == 110.0
    assert read["device"]["busy_share"] == 0.4
    assert read["spike"]["time"][0] == {
        "what": "gc", "ms": 400.0, "share_of_overrun": 0.8333, "thread": "", "role": "", "site": None,
    }  # fmt: skip


def test_several_files_stand_under_reports(make):
    report = full_report(make)
    both = documents([report, report])
    assert both == {"schema": "midwatch.report.v1", "reports": [document(report), document(report)]}
    assert documents([report]) == document(report)


def test_the_inputs_are_the_window_s_own_before_those_of_its_trace(make):
    summary = full_report(make).summary
    from_trace = Report(diagnose(Evidence(summary=summary)), summary=summary)
    assert document(from_trace)["workload"]["inputs"] == ["float32[8,64]@cpu"]
    noted = Capture("c1", "demand", "done", workload=Workload(("int64[4]@cpu",), 4))
    assert dataclasses.replace(from_trace, capture=noted).workload.inputs == ("int64[4]@cpu",)
    assert dataclasses.replace(from_trace, spike=make.spike()).workload == Workload()


def test_the_time_of_a_service_without_a_device_is_told(make):
    (idle,) = document(full_report(make))["window"]["time"]
    assert (idle["what"], idle["share"], idle["samples"], idle["thread"]) == ("idle", 0.4, 12, "batcher")
    assert idle["site"]["line"] == 62


def test_time_that_single_looks_do_not_tell_of_is_unknown(make):
    spike = make.spike(500, samples=(make.sample(400, make.frame("rank"), weight_ms=400),))
    (part,) = document(Report(diagnose(Evidence(spike=spike)), spike=spike))["spike"]["time"]
    assert (part["what"], part["ms"], part["site"]) == ("unknown", 400.0, None)
