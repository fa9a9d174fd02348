"""What others have published of their traces, or what was counted in them by other means, is what is read from them."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from midwatch.trace import summarise
from midwatch.trace.columns import KERNEL, MEMCPY, MEMSET
from midwatch.trace.intervals import Cover
from midwatch.trace.load import load

FIELD = Path(__file__).parents[2] / "data" / "field"
EXACT = 1e-3
"""A tenth of a percent."""


def union_ms(trace, rows):
    return Cover.union(trace.device.start[rows], trace.device.end[rows]).total / 1e6


def everything(trace):
    return np.ones(len(trace.device), np.bool_)


def with_a_launch(trace):
    return np.isin(trace.device.link, trace.runtime.link)


def without_memsets(trace):
    return trace.device.kind != MEMSET


REFERENCES = {
    "tracelens__bert_small": everything,
    "tracelens__falconsai": everything,
    "tracelens__mi210_gpu_only": everything,
    "tracelens__normalization": without_memsets,
    "tracelens__qwen": with_a_launch,
    "tracelens__sglang_decode": everything,
    "tracelens__triton": everything,
    "tracelens__vllm_decode": everything,
}
"""What TraceLens counts: not the work of the step before (of Qwen), nor five memsets before the first operator."""


def timeline_of(path):
    with path.open() as file:
        return {row["type"]: float(row["time ms"]) for row in csv.DictReader(file)}


def check_against(reference, trace, rows):
    """Compare busy, idle, compute and copy time; copies count where nothing else runs, and in all."""
    copies, compute = rows & (trace.device.kind == MEMCPY), rows & (trace.device.kind != MEMCPY)
    busy = union_ms(trace, rows)
    span = (trace.device.end[rows].max() - trace.device.start[rows].min()) / 1e6
    found = {
        "busy_time": busy,
        "total_time": span,
        "idle_time": span - busy,
        "computation_time": union_ms(trace, compute),
        "exposed_memcpy_time": busy - union_ms(trace, compute),
        "total_memcpy_time": union_ms(trace, copies),
    }
    for what, value in found.items():
        assert value == pytest.approx(reference[what], rel=EXACT, abs=2e-5), what


@pytest.mark.parametrize("name", REFERENCES)
def test_busy_idle_and_copy_time_are_those_of_the_reference(name):
    trace = load(FIELD / f"{name}.json.gz")
    check_against(timeline_of(FIELD / "refs" / f"{name}.gpu_timeline.csv"), trace, REFERENCES[name](trace))


@pytest.mark.parametrize("name", [n for n, counted in REFERENCES.items() if counted is everything])
def test_the_summary_says_what_the_reference_says(name):
    reference = timeline_of(FIELD / "refs" / f"{name}.gpu_timeline.csv")
    device = summarise(FIELD / f"{name}.json.gz").device
    assert device.busy_ms == pytest.approx(reference["busy_time"], rel=EXACT)
    assert device.idle_ms == pytest.approx(reference["idle_time"], rel=EXACT, abs=2e-5)
    classes = {c.name: c.total_ms for c in device.classes}
    copies = sum(ms for what, ms in classes.items() if what.startswith("copy"))
    assert copies == pytest.approx(reference["total_memcpy_time"], rel=EXACT, abs=2e-5)
    assert classes["compute"] == pytest.approx(reference["computation_time"], rel=EXACT)


@pytest.mark.parametrize("name", sorted(path.name.split(".")[0] for path in (FIELD / "refs").glob("*.kernel_*.csv")))
def test_each_kernel_has_the_count_and_time_of_the_reference(name):
    trace = load(FIELD / f"{name}.json.gz")
    device = trace.device
    count, total = Counter(), Counter()
    for row in np.flatnonzero(device.kind == KERNEL).tolist():
        name_of_row = trace.names[int(device.name[row])]
        count[name_of_row] += 1
        total[name_of_row] += float(device.end[row] - device.start[row]) / 1e3
    expected_count, expected_total = Counter(), Counter()
    with (FIELD / "refs" / f"{name}.kernel_summary.csv").open() as file:
        for row in csv.DictReader(file):
            expected_count[row["Kernel name"]] += int(row["Kernel duration (µs)_count"])
            expected_total[row["Kernel name"]] += float(row["Kernel duration (µs)_sum"])
    assert count == expected_count
    assert total == pytest.approx(expected_total, rel=EXACT)


def calls(trace):
    return Counter(trace.names[n] for n in trace.runtime.name.tolist())


def rows_named(trace, table, name):
    return np.flatnonzero(np.array([trace.names[n] == name for n in table.name.tolist()], np.bool_))


def spent_ms(table, rows):
    return float((table.end[rows] - table.start[rows]).sum()) / 1e6


def test_rocm_calls_are_read_by_name(data):
    trace = load(FIELD / "hta__mi250_minitoy.json.gz")
    expected = {
        "hipLaunchKernel": 12,
        "hipExtModuleLaunchKernel": 2,
        "hipMemcpyWithStream": 2,
        "hipDeviceSynchronize": 1,
    }
    assert {name: calls(trace)[name] for name in expected} == expected
    device = summarise(FIELD / "hta__mi250_minitoy.json.gz").device
    assert (device.busy_ms, device.busy_ms + device.idle_ms) == pytest.approx((0.149, 8.912), abs=1e-3)


def test_a_process_without_a_device_has_no_device(data):
    for name in ("hta__cpu_only", "hta__rank_non_gpu"):
        trace, summary = load(FIELD / f"{name}.json.gz"), summarise(FIELD / f"{name}.json.gz")
        assert not trace.head.devices
        assert not summary.device.present
        assert (summary.waits, summary.kernels, summary.copies, summary.allocs) == ((), (), (), ())


def test_the_allocator_ran_inside_the_first_convolutions():
    trace = load(FIELD / "hta__alexnet.json.gz")
    mallocs = rows_named(trace, trace.runtime, "cudaMalloc")
    starts = trace.runtime.start[mallocs]
    for operator, count, total_ms in (("aten::cudnn_convolution", 10, 1076), ("aten::max_pool2d", 3, 833)):
        ops = rows_named(trace, trace.ops, operator)
        inside = [((trace.ops.start[ops] <= at) & (at < trace.ops.end[ops])).any() for at in starts]
        assert sum(inside) == count
        assert spent_ms(trace.runtime, mallocs[inside]) == pytest.approx(total_ms, abs=0.5)
    copies = Counter(trace.names[n] for n in trace.device.name[trace.device.kind == MEMCPY].tolist())
    assert copies == {"Memcpy HtoD (Pageable -> Device)": 16}
    device = summarise(FIELD / "hta__alexnet.json.gz").device
    assert device.busy_ms / (device.busy_ms + device.idle_ms) == pytest.approx(0.005, abs=2e-4)


def test_sync_records_keep_the_stream_that_they_name():
    trace = load(FIELD / "hta__event_sync.json.gz")
    streams = sorted(trace.lanes[lane][2] for lane in trace.sync.lane.tolist())
    assert streams == [-1, -1, -1, 7]
    for name, total_us in (("cudaEventSynchronize", 34), ("cudaStreamSynchronize", 6), ("cudaDeviceSynchronize", 8)):
        rows = rows_named(trace, trace.runtime, name)
        assert (len(rows), spent_ms(trace.runtime, rows) * 1000) == (1, total_us)


def test_a_record_of_an_event_that_is_not_known_says_nothing_of_a_stream():
    trace = load(FIELD / "kineto__before_fix.json.gz")
    assert [trace.names[n] for n in trace.sync.name.tolist()] == ["Stream Wait Event", "Event Sync"]
    assert trace.lanes[int(trace.sync.lane[1])] == ("device", 0, -1)
    assert summarise(FIELD / "kineto__before_fix.json.gz").launch.recoverable_ms == 0.0


def test_without_steps_no_event_is_left_out():
    summary = summarise(FIELD / "hta__mtia.json.gz")
    assert (summary.events, summary.window.basis, summary.window.requests) == (16158, "window", 1)
    (unknown,) = [c for c in summary.window.caveats if c.code == "unknown_lanes"]
    assert "mtia_ccp_events, mtia_runtime" in unknown.text


def test_a_triton_kernel_is_launched_through_the_driver():
    trace = load(FIELD / "hta__triton.json.gz")
    assert [trace.names[n] for n in trace.device.name.tolist()] == ["triton_poi_fused_add_cos_sin_0"]
    assert len(rows_named(trace, trace.ops, "triton_poi_fused_add_cos_sin_0")) == 1
    assert calls(trace)["cuLaunchKernel"] == 1
    device = summarise(FIELD / "hta__triton.json.gz").device
    assert (device.kernels, device.launches, device.launches_without_kernel) == (1, 1, 0)


def test_the_device_is_idle_for_most_of_a_launch_bound_step():
    for name, idle, kernels, small in (("bert_small", 0.9208, 60, 58), ("falconsai", 0.7501, 155, 117)):
        device = summarise(FIELD / f"tracelens__{name}.json.gz").device
        assert device.idle_ms / (device.busy_ms + device.idle_ms) == pytest.approx(idle, abs=1e-4)
        assert (device.kernels, device.small_kernels) == (kernels, small)


def test_a_small_pinned_copy_is_waited_for_by_its_own_stream_sync():
    summary = summarise(FIELD / "tracelens__bert_small.json.gz")
    (copy,) = summary.copies
    assert (copy.direction, copy.count) == ("DtoH", 1)
    waits = {wait.cause: wait for wait in summary.waits}
    assert waits["item"].count == 1
    assert 0.008 <= waits["item"].total_ms < 0.02


def test_a_trace_of_kernels_alone_is_busy_and_has_no_code():
    device = summarise(FIELD / "tracelens__mi210_gpu_only.json.gz").device
    assert device.busy_ms / (device.busy_ms + device.idle_ms) == pytest.approx(0.894, abs=1e-3)


def test_waiting_at_the_end_for_compiled_work_is_waiting_for_real_work():
    summary = summarise(FIELD / "tracelens__triton.json.gz")
    (wait,) = summary.waits
    assert wait.api == "hipDeviceSynchronize"
    assert wait.total_ms == pytest.approx(11.9, abs=0.05)
    assert wait.device_busy_ms > 0.99 * wait.total_ms
    assert wait.recoverable_ms == 0.0


def test_work_of_the_step_before_is_work_without_a_launch():
    trace, summary = load(FIELD / "tracelens__qwen.json.gz"), summarise(FIELD / "tracelens__qwen.json.gz")
    early = trace.device.start < trace.ops.start.min()
    assert int(early.sum()) == 463
    assert not with_a_launch(trace)[early].any()
    assert {c.code: c.count for c in summary.window.caveats}["work_without_launch"] == 463


def test_a_hole_that_a_splitter_cut_is_no_gap_of_the_host():
    summary = summarise(FIELD / "tracelens__sglang_decode.json.gz")
    assert summary.device.idle_ms > 463
    assert summary.gaps == ()
    assert summary.launch.recoverable_ms < 1


@pytest.mark.parametrize(("which", "busy"), [("01", 0.150), ("03", 0.711), ("05", 0.972)])
def test_mixtures_of_experts_are_as_busy_as_published(which, busy):
    device = summarise(FIELD / f"tracelens__nv_moe_{which}.json.gz").device
    assert device.busy_ms / (device.busy_ms + device.idle_ms) == pytest.approx(busy, abs=6e-4)


@pytest.mark.parametrize(
    ("name", "total_ms", "family"),
    [
        ("gemm_01", 10.89, "gemm"),
        ("gemm_02", 1.071, "gemm"),
        ("gemm_03", 3.672, "gemm"),
        ("conv_01", 4.50, "conv"),
        ("conv_03", 0.80, "conv"),
        ("moe_01", 0.28, None),
        ("moe_03", 0.95, None),
    ],
)
def test_one_family_takes_all_the_time_where_the_source_says_so(name, total_ms, family):
    """Total time, no idle time, no copies and the top category of the source's own report on each unit trace."""
    summary = summarise(FIELD / f"tracelens_unit__{name}.json.gz")
    assert summary.device.busy_ms == pytest.approx(total_ms, rel=EXACT)
    assert summary.device.idle_ms == pytest.approx(0.0, abs=1e-3)
    assert summary.copies == ()
    top = summary.kernels[0]
    assert top.share > 0.95
    assert family in {None, top.family}


@pytest.mark.parametrize(
    ("pair", "before_ms", "after_ms", "kernels"),
    [("01", 1.16, 0.80, (4, 1)), ("02", 0.275, 0.12, (3, 3)), ("03", 0.35, 0.78, (1, 3))],
)
def test_the_two_sides_of_a_comparison_have_their_times(pair, before_ms, after_ms, kernels):
    sides = [summarise(FIELD / f"tracelens__compare_{pair}_{side}.json.gz").device for side in (1, 2)]
    assert tuple(side.busy_ms for side in sides) == pytest.approx((before_ms, after_ms), rel=EXACT)
    assert tuple(side.kernels for side in sides) == kernels


def test_the_first_call_loads_its_modules_and_the_device_waits():
    trace = load(FIELD / "tracelens__normalization.json.gz")
    assert calls(trace)["hipModuleLoadData"] == 4
    holes = trace.device.start[1:] - np.maximum.accumulate(trace.device.end)[:-1]
    assert holes.max() / 1e6 == pytest.approx(332, abs=0.5)
