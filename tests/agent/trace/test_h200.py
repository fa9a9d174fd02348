"""Planted faults recorded on an H200: the facts must let a reader find each of them, and nothing else."""

from __future__ import annotations

import json

import pytest
from midwatch.trace import summarise

FAULTS = (
    "clean_bf16",
    "device_sync",
    "fp32_gemm",
    "gc_pause",
    "item_free",
    "item_metric",
    "python_gap",
    "tiny_kernels",
)


@pytest.fixture(scope="module")
def facts(data):
    """Summaries with and without the untraced latency, by name."""
    found = {}
    for name in FAULTS:
        folder = data / "h200"
        meta = json.loads((folder / f"{name}.meta.json").read_text())
        path = folder / f"{name}.json.gz"
        found[name] = (summarise(path, untraced_p50_ms=meta["latency_ms"]["p50"]), summarise(path), meta)
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_what_the_file_holds_is_all_there(facts, name):
    summary, _, meta = facts[name]
    events = meta["events"]
    assert summary.window.basis == "annotation"
    left_out = sum(c.count for c in summary.window.caveats if c.code == "profiler_overhead")
    assert (summary.window.requests + left_out, summary.window.requests_cut) == (meta["requests"], 0)
    assert summary.window.lanes == ("host_ops", "runtime", "device", "sync", "python")
    device = summary.device
    assert (device.names, device.kernels, device.copies) == (("NVIDIA H200",), events["kernel"], events["gpu_memcpy"])
    assert device.launches == device.kernels
    assert device.launches_without_kernel == 0
    split = device.idle_host_late_ms + device.idle_launch_latency_ms + device.idle_waiting_ms + device.idle_unknown_ms
    assert split == pytest.approx(device.idle_ms)
    assert sum(r.slowest for r in summary.requests) == 1
    assert summary.cuda == "13.0"


@pytest.mark.parametrize("which", [0, 1])
def test_a_scalar_read_in_mid_request_is_worth_more_than_a_twentieth(facts, which):
    summary = facts["item_metric"][which]
    wait = summary.waits[0]
    assert (wait.cause, wait.site.function, wait.site.exact) == ("item", "record_confidence", False)
    assert wait.followed_by_work == wait.count == wait.requests_affected
    assert wait.handover == 0
    assert wait.launches_after > 50
    assert wait.copy_bytes == 4 * wait.count
    assert wait.recoverable_ms > 0.05 * summary.request_p50_ms


@pytest.mark.parametrize("which", [0, 1])
def test_synchronizing_between_the_stages_is_worth_more_than_a_twentieth(facts, which):
    summary = facts["device_sync"][which]
    wait = summary.waits[0]
    assert (wait.cause, wait.api, wait.site.function) == ("device_sync", "cudaDeviceSynchronize", "sync")
    assert wait.count == 8 * wait.requests_affected
    assert wait.recoverable_ms > 0.05 * summary.request_p50_ms


@pytest.mark.parametrize("which", [0, 1])
def test_a_scalar_read_from_an_idle_device_is_worth_nothing(facts, which):
    summary = facts["item_free"][which]
    (item,) = [wait for wait in summary.waits if wait.cause == "item"]
    assert item.followed_by_work == item.count
    assert item.recoverable_ms < 0.02 * summary.request_p50_ms
    assert summary.launch.recoverable_ms > 0.5 * summary.request_p50_ms
    assert summary.launch.site.function == "request"


@pytest.mark.parametrize("which", [0, 1])
def test_tiny_kernels_are_a_matter_of_launching(facts, which):
    summary = facts["tiny_kernels"][which]
    launch = summary.launch
    assert launch.per_request == 360
    assert launch.recoverable_ms > 0.7 * summary.request_p50_ms
    assert launch.replayed_ms + launch.recoverable_ms == pytest.approx(summary.request_p50_ms, rel=0.02)
    assert (launch.stable_sequence, launch.stable_shapes, launch.hazards) == (True, True, ())
    assert launch.site.function == "request"
    assert summary.gaps == ()


@pytest.mark.parametrize("which", [0, 1])
def test_python_between_the_stages_is_a_gap_at_its_function(facts, which):
    gap = facts["python_gap"][which].gaps[0]
    assert (gap.host, gap.site.function, gap.site.line, gap.device) == ("python", "tokenise", 181, True)
    assert gap.count == gap.requests_affected == 5
    assert gap.per_request_ms == pytest.approx(3.6, abs=0.3)
    assert gap.recoverable_ms == pytest.approx(gap.per_request_ms, rel=0.05)


def test_fp32_products_run_without_tensor_cores(facts):
    kernel = facts["fp32_gemm"][0].kernels[0]
    assert (kernel.family, kernel.tensor_cores, kernel.dtype, kernel.op) == ("gemm", "no", "float32", "aten::mm")
    assert kernel.share > 0.9
    assert kernel.shapes == ("f32[4096,4096] x f32[4096,4096]",)
    assert kernel.site.function == "request"


def test_a_collection_by_hand_is_a_collection_and_no_gap_of_python(facts):
    summary = facts["gc_pause"][0]
    (pause,) = summary.gc
    assert (pause.explicit, pause.count, pause.requests_affected, pause.site.function) == (True, 1, 1, "request")
    assert pause.per_request_ms == pytest.approx(184.9, abs=0.1)
    assert summary.gaps[0].host == "gc"
    assert all(gap.total_ms < 0.3 for gap in summary.gaps[1:])


def test_device_bound_work_with_a_hand_over_has_nothing_to_gain(facts):
    summary = facts["clean_bf16"][0]
    assert summary.gaps == ()
    assert [(wait.handover, wait.followed_by_work, wait.recoverable_ms) for wait in summary.waits] == [(5, 0, 0.0)]
    assert summary.launch.recoverable_ms < 0.01
    assert summary.kernels[0].tensor_cores == "yes"


def test_the_cost_of_events_comes_near_the_untraced_latency(facts):
    """Where nobody else used the device, the guess without a known latency is within a tenth."""
    for name in ("item_free", "tiny_kernels", "python_gap", "fp32_gemm"):
        known, guessed, _ = facts[name]
        assert guessed.window.untraced_factor == pytest.approx(known.window.untraced_factor, rel=0.1)
        assert "untraced_factor" in [c.code for c in known.window.caveats]


def test_the_request_in_which_the_profiler_made_room_for_itself_is_left_out(facts):
    summary = facts["tiny_kernels"][0]
    assert "profiler_overhead" in [c.code for c in summary.window.caveats]
    assert summary.request_p50_ms < 8.2 < max(r.wall_ms for r in summary.requests)


def test_the_timeline_shows_the_slowest_request(facts):
    summary = facts["item_metric"][0]
    slowest = next(r for r in summary.requests if r.slowest)
    timeline = summary.timeline
    assert (timeline.start_ms, timeline.duration_ms) == (slowest.start_ms, slowest.wall_ms)
    lanes = {lane.kind: lane.cells for lane in timeline.lanes}
    assert set(lanes) == {"host", "wait", "device", "copy"}
    assert all(len(cells) == 100 and 0 <= min(cells) <= max(cells) <= 100 for cells in lanes.values())
    cell = slowest.wall_ms / 100
    assert sum(lanes["wait"]) / 100 * cell == pytest.approx(slowest.wait_ms, abs=2 * cell)


@pytest.mark.parametrize(("name", "kind", "least_ms"), [("gc_pause", "gc", 180.0), ("python_gap", "python", 3.5)])
def test_a_host_that_holds_the_work_up_does_not_look_idle_in_the_timeline(facts, name, kind, least_ms):
    """Its lane holds operators and calls of the runtime: Python and collections have lanes of their own."""
    summary = facts[name][0]
    lanes = {lane.kind: lane.cells for lane in summary.timeline.lanes}
    cell_ms = summary.timeline.duration_ms / 100
    held = [at for at, share in enumerate(lanes[kind]) if share == 100]
    assert len(held) * cell_ms > least_ms
    assert sum(lanes["host"][at] for at in held) < 5 * len(held), "the host's own lane is all but blank there"
    longest = max(gap.max_ms for gap in summary.gaps if gap.host == kind)
    assert sum(lanes[kind]) / 100 * cell_ms == pytest.approx(longest, rel=0.1)
