"""Data loaders, collectives and torch.compile: what a trace alone says of them."""

from pathlib import Path

import pytest
from midwatch.model.finding import Kind, Verdict
from midwatch.model.site import Site
from midwatch.model.trace import CollectiveFacts, GapFacts, LoaderFacts
from midwatch.trace import summarise
from midwatch_server.diagnosis import Evidence, diagnose

FOLDER = Path(__file__).parents[2] / "data" / "kinds"


def judge(name):
    summary = summarise(FOLDER / f"{name}.json.gz")
    return summary, diagnose(Evidence(summary=summary))


def test_a_loader_without_workers_stalls_every_step():
    summary, diagnosis = judge("kineto__workers_0")
    first = diagnosis.findings[0]
    assert first.kind is Kind.DATA_STALL
    assert first.share_of_request == pytest.approx(0.4032, abs=1e-3)
    assert summary.loader.total_ms == pytest.approx(215.7, abs=0.1)
    assert summary.loader.idle_ms < summary.loader.per_request_ms, "the device still works off the step before"
    assert 0 < first.recoverable_ms <= summary.loader.idle_ms
    assert "num_workers" in first.advice[0].change
    assert not any(f.kind is Kind.HOST_GAP for f in diagnosis.findings), "one stall has one name"


def test_a_loader_with_workers_is_no_finding():
    summary, diagnosis = judge("kineto__workers_4")
    assert summary.loader.share < 0.01
    assert diagnosis.findings == ()


def test_collectives_are_named_and_no_gain_is_claimed():
    summary, diagnosis = judge("tracelens__act_checkpoint")
    first = diagnosis.findings[0]
    assert first.kind is Kind.COLLECTIVE_WAIT
    assert summary.collective.world_size == 8
    assert summary.collective.exposed_ms == pytest.approx(11.218, abs=1e-3)
    assert first.share_of_request == pytest.approx(0.703, abs=1e-3)
    assert first.recoverable_ms == 0.0
    assert "One rank's trace cannot say" in first.caveats[0]
    assert "analyze FOLDER" in first.advice[0].change


@pytest.mark.parametrize("name", ["compiled__breaks", "compiled__breaks_with_stack"])
def test_graph_breaks_are_counted(name):
    summary, diagnosis = judge(name)
    first = diagnosis.findings[0]
    assert first.kind is Kind.GRAPH_BREAK
    assert (summary.breaks.count, summary.breaks.calls, summary.breaks.requests_affected) == (18, 6, 6)
    assert first.occurrences_per_request == 3.0
    assert "4 pieces" in first.title
    assert 0 < first.recoverable_ms <= first.per_request_ms


def test_frames_give_the_lines_of_the_breaks():
    summary, _ = judge("compiled__breaks_with_stack")
    assert {(site.function, site.line) for site in summary.breaks.sites} == {("model", 17), ("model", 19)}


def test_new_shapes_compile_inside_requests():
    summary, diagnosis = judge("compiled__recompiles")
    first = diagnosis.findings[0]
    assert first.kind is Kind.RECOMPILE
    assert first.requests_affected == 2
    assert summary.compiles[0].count == 2
    assert summary.breaks is None
    assert summary.time[0].what == "compile", "what is traced while compiling is no work of the model"


def test_a_whole_graph_is_clean():
    summary, diagnosis = judge("compiled__whole")
    assert summary.breaks is None
    assert summary.compiles == ()
    assert diagnosis.verdict is Verdict.CLEAN


def test_a_period_points_at_one_worker(make):
    loader = LoaderFacts(
        count=10, requests_affected=3, per_request_ms=6.0, wall_ms=14.0, recoverable_ms=6.0, share=0.2, period=4
    )
    found = diagnose(Evidence(summary=make.window(loader=loader))).findings[0]
    assert found.kind is Kind.DATA_STALL
    assert "every 4 requests" in found.title
    assert "worker" in found.advice[0].change


def test_hidden_collectives_are_no_finding(make):
    facts = CollectiveFacts(count=10, requests_affected=10, per_request_ms=5.0, exposed_ms=0.5)
    diagnosis = diagnose(Evidence(summary=make.window(collective=facts)))
    assert not any(f.kind is Kind.COLLECTIVE_WAIT for f in (*diagnosis.findings, *diagnosis.notes))


def gap(function, cost_ms, *, leading=True):
    site = Site("app/prepare.py", 10, function)
    return GapFacts("python", 10, cost_ms * 10, cost_ms, 10, cost_ms, cost_ms, site=site, leading=leading)


def test_what_prepares_the_input_is_one_finding(make):
    gaps = (gap("normalize", 3.0), gap("decode", 1.5), gap("look_up", 0.01))
    diagnosis = diagnose(Evidence(summary=make.window(gaps=gaps)))
    (found,) = diagnosis.findings
    assert found.site.function == "normalize"
    assert found.per_request_ms == found.recoverable_ms == 4.5
    assert "before the first launch" in found.title
    assert all(name in found.evidence[0] for name in ("normalize", "decode"))


def test_gaps_between_launches_stay_apart(make):
    gaps = (gap("normalize", 3.0), gap("decode", 1.5, leading=False))
    findings = diagnose(Evidence(summary=make.window(gaps=gaps))).findings
    assert [f.site.function for f in findings] == ["normalize", "decode"]
