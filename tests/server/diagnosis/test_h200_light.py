"""Right answers on the agent's own light windows from an H200, whose lines are known from stack samples alone."""

from pathlib import Path

import pytest
from midwatch.model.finding import Kind, Verdict
from midwatch.trace import summarise
from midwatch_server.diagnosis import Evidence, diagnose

FOLDER = Path(__file__).parents[2] / "data" / "h200_light"
EXPECTED = {
    "item_metric": (Kind.HOT_SYNC, "item_metric.py", 14),
    "tiny_kernels": (Kind.LAUNCH_BOUND, "tiny_kernels.py", 14),
    "item_free": (Kind.LAUNCH_BOUND, "item_free.py", 15),
}
"""Kind, file and line of the first finding."""
AMONG_TWO = {
    "cpu_logging": (Kind.HOT_SYNC, "cpu_logging.py", 23, "cpu"),
    "sync_stages": (Kind.HOT_SYNC, "sync_stages.py", 14, "synchronize"),
}
"""Here launching costs more than the planted wait."""


def judge(name):
    summary = summarise(FOLDER / f"{name}.json.gz")
    return summary, diagnose(Evidence(summary=summary))


@pytest.mark.parametrize("name", EXPECTED)
def test_the_first_finding_is_the_planted_one_at_its_line(name):
    kind, file, line = EXPECTED[name]
    first = judge(name)[1].findings[0]
    assert (first.kind, first.site.file, first.site.line, first.site.exact) == (kind, file, line, True)


@pytest.mark.parametrize("name", AMONG_TWO)
def test_a_cheaper_wait_is_one_finding_beside_the_launches_at_its_line(name):
    kind, file, line, callee = AMONG_TWO[name]
    syncs = [f for f in judge(name)[1].findings[:2] if f.kind is kind]
    assert [(f.site.file, f.site.line, f.site.callee, f.site.exact) for f in syncs] == [(file, line, callee, True)]
    assert f"`.{callee}()`" in syncs[0].title
    assert "in every request" in syncs[0].title


@pytest.mark.parametrize("name", ["item_free", "tiny_kernels"])
def test_a_wait_that_no_sample_hit_has_no_line_rather_than_its_neighbour_s(name):
    summary, diagnosis = judge(name)
    assert summary.waits
    assert [wait.site for wait in summary.waits] == [None] * len(summary.waits)
    assert Kind.HOT_SYNC not in {finding.kind for finding in diagnosis.findings}


def test_a_gap_that_the_sampler_could_not_look_into_names_the_function_around_it_without_a_line():
    first = judge("python_gap")[1].findings[0]
    assert (first.kind, first.site.function, first.site.exact) == (Kind.HOST_GAP, "make_handler.<locals>.handle", False)
    assert ":23" not in first.title


def test_a_gap_that_the_sampler_could_look_into_has_its_line():
    first = judge("python_gap_eager")[1].findings[0]
    assert (first.kind, first.site.file, first.site.line) == (Kind.HOST_GAP, "python_gap.py", 13)
    assert first.site.exact


def test_products_in_fp32_are_found_without_operators():
    first = judge("fp32_gemm")[1].findings[0]
    assert (first.kind, first.site.file) == (Kind.KERNEL_BOUND, "fp32_gemm.py")


@pytest.mark.parametrize("name", ["clean_bf16", "clean_graph"])
def test_a_good_service_is_clean(name):
    summary, diagnosis = judge(name)
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.CLEAN, ())
    (handover,) = summary.waits
    assert (handover.handover, handover.site.callee) == (handover.count, "cpu")


def test_what_two_threads_share_is_not_replayed_as_a_wall():
    """One thread's launches stand in line behind the other's; without its wait they still come earlier."""
    summary, _ = judge("sync_stages")
    assert summary.waits[0].recoverable_ms > 0.4
    assert summary.window.untraced_factor < 1.0
