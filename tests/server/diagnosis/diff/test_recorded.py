"""Comparisons of traces that were recorded on an H200."""

import re
from pathlib import Path

import pytest
from midwatch.trace import summarise
from midwatch_server.diagnosis import Evidence, Report, diagnose
from midwatch_server.diagnosis.diff import compare

DATA = Path(__file__).parents[3] / "data"


def read(name):
    summary = summarise(DATA / name)
    return Report(diagnose(Evidence(summary=summary)), summary=summary, file=name)


@pytest.fixture(scope="module")
def diff():
    def compared(a, b):
        return compare(read(f"{a}.json.gz"), read(f"{b}.json.gz"))

    return compared


def test_a_trace_does_not_differ_from_itself(diff):
    for name in ("h200/item_metric", "h200/gc_pause", "h200_light/cpu_logging", "field/hta__cpu_only"):
        same = diff(name, name)
        assert same.answer[0].startswith("No difference beyond the spread"), name
        assert same.changed == ()
        assert {figure.status for figure in same.figures} <= {"same", "unknown"}
        assert {change.status for change in same.changes} == {"same"}
        assert {named.status for named in same.findings} <= {"kept"}


def test_tokenising_that_is_gone(diff):
    """The same model behind both; A tokenises in Python first."""
    found = diff("h200/python_gap", "h200/item_free")
    assert found.comparability.verdict == "comparable"
    top = found.shares[0]
    assert top.change.label == "Python in tokenise (scenarios.py)"
    assert -top.ms == pytest.approx(3.6, abs=0.1)
    assert "3.6 ms of it is Python in tokenise (scenarios.py), now gone" in found.answer[0]


def test_tensor_cores_and_what_was_lost_beside_them(diff):
    found = diff("h200/fp32_gemm", "h200/clean_bf16")
    assert found.wall.status == "less"
    assert found.shares[0].change.label == "matrix products"
    assert [remark.code for remark in found.changed] == ["precision"]
    assert found.answer[1] == "Against that, 1.3 ms are lost elsewhere: the device idles 2.0 ms longer."


def test_services_that_do_other_work(diff):
    assert diff("h200/item_metric", "h200/clean_bf16").comparability.verdict == "not_comparable"
    assert diff("h200_light/tiny_kernels", "h200_light/clean_graph").comparability.remarks[0].code == "route"


def test_the_same_window_with_a_lane_lost_is_not_slower(diff):
    whole = "field/tracelens__bert_small"
    for damaged in ("gpu_events_dropped_at_start", "ts0_dur0_kernels", "bare_list"):
        found = diff(f"field/derived__{damaged}", whole)
        assert found.wall.status == "same", damaged
        assert not [figure.key for figure in found.figures if figure.status in ("more", "less") and figure.unit == "ms"]


def test_the_same_lines_at_two_sizes_are_held_up_by_other_things(diff):
    """A matrix product and an addition, a hundred times a request: 64 by 64, and 4096 by 4096."""
    found = diff("sizes/matmul_add_64", "sizes/matmul_add_4096")
    assert len(found.answer) == 1
    assert re.match(
        r"A request takes (89|9\d)\.\d times as long in B, 273 ms instead of (2\.9|3\.\d) ms; ", found.answer[0]
    )
    assert found.answer[0].endswith("all of it is matrix products, 0.31 ms before, 268 ms now.")
    launches, kernels = found.findings
    assert (launches.status, launches.a.kind.value) == ("gone", "launch_bound")
    assert (launches.a.graph_candidate.suitable, launches.a.graph_candidate.hazards) == (True, ())
    assert launches.a.recoverable_ms == pytest.approx(2.2, abs=0.1)
    assert (kernels.status, kernels.b.kind.value) == ("new", "kernel_bound")
    assert kernels.b.title.startswith("Matrix products in fp32 without tensor cores take 268 ms of 273 ms")
    assert kernels.b.evidence[1].endswith("...: 100 per request, median 2678.0 us, 98 % of the device's time")
    figures = {figure.key: figure.status for figure in found.figures}
    expected = {"device_idle_ms": "less", "device_busy_ms": "more", "launches": "same", "host_busy_ms": "same"}
    assert {key: figures[key] for key in expected} == expected
    assert found.comparability.verdict == "limited", "light windows know no shapes"
    assert found.changed == ()
