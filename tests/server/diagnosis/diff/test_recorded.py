"""Comparisons of traces that were recorded on an H200."""

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
