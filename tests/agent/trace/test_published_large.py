"""As test_published, on the large traces beside the checkout. They are not kept here: some megabytes each."""

from __future__ import annotations

import csv
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from midwatch.trace import summarise
from midwatch.trace.columns import MEMCPY
from midwatch.trace.intervals import Cover
from midwatch.trace.load import load

FOLDER = Path(__file__).parents[4] / "shared" / "field"
EXACT = 1e-3
NAMES = {
    "df_index": "hta__df_index_resolver_df_index_resolver",
    "control": "hta__trace_diff_control_control",
    "workers_0": "kineto__tb_plugin_samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace",
    "workers_4": "kineto__tb_plugin_samples_resnet50_num_workers_4_worker0.1623212756351.pt.trace",
    "param": "param__linear_kineto",
    "timesformer": "tracelens__h100_facebook_timesformer-base-finetuned-k400__1016002",
    "xdit": "tracelens__inference_xdit_sd_3.5_profile_trace_rank_0",
    "act_checkpoint": "tracelens__mi300_resnet_act_checkpoint",
    "gemm_04": "tracelens_unit__gemm_04_memory_tall_skinny",
}


@lru_cache(maxsize=2)
def read(short):
    path = FOLDER / "traces" / f"{NAMES[short]}.json.gz"
    return load(path), summarise(path)


def calls(trace):
    return Counter(trace.names[n] for n in trace.runtime.name.tolist())


def spent_ms(trace, table, name):
    rows = np.array([name in trace.names[n] for n in table.name.tolist()], np.bool_)
    return float((table.end[rows] - table.start[rows]).sum()) / 1e6


def busy_share(summary):
    return summary.device.busy_ms / (summary.device.busy_ms + summary.device.idle_ms)


@pytest.mark.parametrize(
    ("short", "reference"),
    [
        ("timesformer", "tracelens__h100_facebook_timesformer-base-finetuned-k400__1016002_perf_report_csvs"),
        ("xdit", "tracelens__inference_xdit_sd_3.5_perf_csvs"),
    ],
)
def test_busy_idle_and_copy_time_are_those_of_the_reference(short, reference):
    """The reference counts all device work; memsets are computing time there."""
    with (FOLDER / "refs" / f"{reference}_gpu_timeline.csv").open() as file:
        expected = {row["type"]: float(row["time ms"]) for row in csv.DictReader(file)}
    trace, summary = read(short)
    assert summary.device.busy_ms == pytest.approx(expected["busy_time"], rel=EXACT)
    assert summary.device.idle_ms == pytest.approx(expected["idle_time"], rel=EXACT)
    device = trace.device
    copies = device.kind == MEMCPY
    for what, rows in (("computation_time", ~copies), ("total_memcpy_time", copies)):
        assert Cover.union(device.start[rows], device.end[rows]).total / 1e6 == pytest.approx(expected[what], rel=EXACT)


@pytest.mark.parametrize(
    ("short", "busy", "kernels", "small"),
    [
        ("df_index", 0.577, 19370, 9954),
        ("param", 0.368, 8716, 3549),
        ("control", 0.836, 8568, 4463),
        ("xdit", 0.608, 8042, 3231),
        ("act_checkpoint", 0.970, 2995, 2351),
        ("timesformer", 0.990, 446, 51),
        ("gemm_04", 0.938, 10, None),
    ],
)
def test_busy_time_and_kernels_are_those_counted_by_other_means(short, busy, kernels, small):
    _, summary = read(short)
    assert busy_share(summary) == pytest.approx(busy, abs=6e-4)
    assert summary.device.kernels == kernels
    assert small in {None, summary.device.small_kernels}


def test_a_collective_takes_most_time_and_unknown_calls_are_read():
    trace, summary = read("df_index")
    top = summary.kernels[0]
    assert (top.family, "AllReduce" in top.name) == ("collective", True)
    assert top.total_ms == pytest.approx(357, abs=0.5)
    assert calls(trace)["INVALID"] == 2020
    steps = [trace.names[n] for n in trace.annotations.name.tolist() if trace.names[n].startswith("ProfilerStep#")]
    assert steps == [f"ProfilerStep#{n}" for n in range(2, 7)]


def test_reading_a_scalar_waits_inside_the_copy_and_not_in_a_synchronize():
    trace, summary = read("control")
    assert spent_ms(trace, trace.runtime, "cudaStreamSynchronize") == pytest.approx(0.195, abs=1e-3)
    items = [wait for wait in summary.waits if wait.cause == "item"]
    assert {wait.api for wait in items} == {"cudaMemcpyAsync"}
    assert sum(wait.total_ms for wait in items) > 32.6


@pytest.mark.parametrize(
    ("short", "share", "step_ms", "kernels"), [("workers_0", 0.396, 175, 8772), ("workers_4", 0.010, 140, 8868)]
)
def test_the_old_names_of_2021_are_read_and_the_loader_has_its_share_of_the_steps(short, share, step_ms, kernels):
    trace, summary = read(short)
    assert summary.device.kernels == kernels
    steps = spent_ms(trace, trace.annotations, "ProfilerStep#")
    assert steps / summary.window.requests == pytest.approx(step_ms, rel=3e-3)
    assert spent_ms(trace, trace.ops, "DataLoaderIter.__next__") / steps == pytest.approx(share, abs=5e-4)


def test_the_allocator_was_called_as_often_as_counted():
    trace, _ = read("param")
    assert calls(trace)["cudaMalloc"] == 13


def test_most_of_a_busy_device_is_communication():
    trace, summary = read("act_checkpoint")
    top = summary.kernels[0]
    assert (top.name, top.family) == ("ncclDevKernel_Generic", "collective")
    assert top.total_ms == pytest.approx(71.5, abs=0.05)
    assert summary.device.busy_ms == pytest.approx(84, abs=0.05)
    assert {c.code: c.count for c in summary.window.caveats}["work_without_launch"] == 968
    assert spent_ms(trace, trace.runtime, "hipDeviceSynchronize") == pytest.approx(37.9, abs=0.05)


def test_softmax_dominates_and_the_copy_back_waits_for_real_work():
    _, summary = read("timesformer")
    softmax = next(k for k in summary.kernels if k.family == "softmax")
    assert softmax.total_ms == pytest.approx(68.7, abs=0.05)
    back = next(wait for wait in summary.waits if wait.cause == "d2h")
    assert back.api == "cudaMemcpyAsync"
    assert back.total_ms == pytest.approx(125.9, abs=0.1)
    assert back.device_busy_ms > 0.99 * back.total_ms
    assert back.recoverable_ms == 0.0
