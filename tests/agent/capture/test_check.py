"""The self-check of a saved trace, and the environment that Kineto reads."""

from __future__ import annotations

import gzip
import json

import pytest
from midwatch.capture import check, environment
from midwatch.capture.check import TraceCount, check_trace, count_trace, judge
from midwatch.capture.environment import prepare_environment, tear_down_is_safe, tears_down
from midwatch.capture.version import TorchVersion


def trace(path, kernels, launches, graphs=0, **how):
    events = [{"ph": "X", "cat": "kernel", "name": "gemm"}] * kernels
    events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel"}] * launches
    events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch"}] * graphs
    events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync"}] * 5
    text = json.dumps({"traceEvents": events}, **how).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.parametrize("how", [{}, {"separators": (",", ":")}, {"indent": 1}])
@pytest.mark.parametrize("chunk", [64, 97, 1 << 20])
def test_counts_do_not_depend_on_spacing_packing_or_chunks(tmp_path, monkeypatch, name, how, chunk):
    monkeypatch.setattr(check, "_CHUNK", chunk)
    path = trace(tmp_path / name, 70, 90, 3, **how)
    assert count_trace(path) == TraceCount(kernels=70, launches=90, graph_launches=3)


@pytest.mark.parametrize(
    ("count", "code"),
    [
        (TraceCount(0, 40), "kernels_missing"),
        (TraceCount(0, 0, 1), "kernels_missing"),
        (TraceCount(30, 40), "kernels_partly_missing"),
        (TraceCount(38, 40), ""),
        (TraceCount(1, 3), ""),
        (TraceCount(0, 0), ""),
        (TraceCount(500, 0, 5), ""),
    ],
)
def test_launches_without_kernels_are_a_caveat_never_an_idle_device(count, code):
    caveats = judge(count)
    assert [c.code for c in caveats] == ([code] if code else [])
    if code == "kernels_missing":
        assert "the device was not idle" in caveats[0].text


def test_a_saved_trace(tmp_path):
    assert check_trace(trace(tmp_path / "good.json", 40, 40)) == ()
    assert check_trace(trace(tmp_path / "lost.json", 0, 40))[0].count == 40


@pytest.mark.parametrize(
    ("number", "cuda", "safe"),
    [((2, 11), (13, 0), True), ((2, 11), (12, 6), True), ((2, 11), (12, 4), False), ((2, 10), (13, 0), False)],
)
def test_where_cupti_can_be_torn_down(monkeypatch, number, cuda, safe):
    version = TorchVersion("x", number, cuda)
    assert tear_down_is_safe(version) is safe
    monkeypatch.setattr(environment, "installed_version", lambda: version)
    environ = {}
    prepare_environment(environ)
    assert tears_down(environ) is safe
    assert environ["KINETO_LOG_LEVEL"] == "6"


def test_what_the_host_has_set_stays(monkeypatch):
    monkeypatch.setattr(environment, "installed_version", lambda: TorchVersion("2.13.0", (2, 13), (13, 0)))
    environ = {"TEARDOWN_CUPTI": "0", "KINETO_LOG_LEVEL": "1"}
    prepare_environment(environ)
    assert environ == {"TEARDOWN_CUPTI": "0", "KINETO_LOG_LEVEL": "1"}
    assert not tears_down(environ)
