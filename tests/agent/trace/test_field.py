"""Other people's traces: each is read, or refused in one sentence, and says what it does not know."""

from __future__ import annotations

import pytest
from midwatch.trace import TraceError, summarise

REFUSED = {"derived__metadata_only.json.gz", "derived__no_events.json"}

KNOWN = {
    # file: (busy ms of the device, kernels, caveats among others)
    "derived__bare_list.json.gz": (0.309, 60, set()),
    "derived__cpu_ops_missing_other_thread.json.gz": (0.309, 60, {"no_operators"}),
    "derived__dur_missing_string_ts_tid.json.gz": (0.289, 60, {"bad_numbers"}),
    "derived__gpu_events_dropped_at_start.json.gz": (0.209, 37, {"device_records_lost"}),
    "derived__truncated_plain.json.gz": (0.0, 0, {"truncated"}),
    "derived__ts0_dur0_kernels.json.gz": (0.187, 45, {"bad_times", "device_records_lost"}),
    "derived__unescaped_quote_in_name.json.gz": (0.309, 60, {"repaired"}),
    "derived__windows_backslash_path.json.gz": (0.309, 60, {"repaired"}),
    "hta__alexnet.json.gz": (66.141, 79, {"no_requests"}),
    "hta__cpu_only.json.gz": (0.0, 0, set()),
    "hta__event_sync.json.gz": (0.051, 4, set()),
    "hta__mi250_minitoy.json.gz": (0.149, 14, set()),
    "hta__mtia.json.gz": (0.0, 0, {"unknown_lanes", "no_requests"}),
    "hta__old_categories.json.gz": (0.03, 4, {"no_requests"}),
    "hta__rank_non_gpu.json.gz": (0.0, 0, set()),
    "hta__triton.json.gz": (0.002, 1, set()),
    "kineto__before_fix.json.gz": (0.0, 1, set()),
    "tracelens__bert_small.json.gz": (0.309, 60, {"untraced_estimated"}),
    "tracelens__compare_01_1.json.gz": (1.16, 4, set()),
    "tracelens__compare_01_2.json.gz": (0.8, 1, set()),
    "tracelens__compare_02_1.json.gz": (0.275, 3, set()),
    "tracelens__compare_02_2.json.gz": (0.12, 3, set()),
    "tracelens__compare_03_1.json.gz": (0.35, 1, set()),
    "tracelens__compare_03_2.json.gz": (0.78, 3, set()),
    "tracelens__falconsai.json.gz": (1.716, 155, {"untraced_estimated"}),
    "tracelens__mi210_gpu_only.json.gz": (5.343, 562, {"no_operators", "no_requests"}),
    "tracelens__normalization.json.gz": (1.019, 168, {"no_requests"}),
    "tracelens__nv_moe_01.json.gz": (0.231, 36, {"no_requests"}),
    "tracelens__nv_moe_03.json.gz": (0.489, 30, {"no_requests"}),
    "tracelens__nv_moe_05.json.gz": (10.241, 42, {"no_requests"}),
    "tracelens__qwen.json.gz": (43.063, 1516, {"work_without_launch"}),
    "tracelens__sglang_decode.json.gz": (9.773, 555, {"no_requests"}),
    "tracelens__triton.json.gz": (12.549, 12, {"no_requests"}),
    "tracelens__vllm_decode.json.gz": (10.718, 425, {"no_requests"}),
    "tracelens_unit__conv_01.json.gz": (4.5, 1, {"device_records_lost", "work_without_launch"}),
    "tracelens_unit__conv_03.json.gz": (0.8, 1, {"device_records_lost", "work_without_launch"}),
    "tracelens_unit__gemm_01.json.gz": (10.89, 20, {"device_records_lost", "work_without_launch"}),
    "tracelens_unit__gemm_02.json.gz": (1.071, 10, {"device_records_lost", "work_without_launch"}),
    "tracelens_unit__gemm_03.json.gz": (3.672, 10, {"device_records_lost", "work_without_launch"}),
    "tracelens_unit__moe_01.json.gz": (0.28, 1, {"device_records_lost", "work_without_launch"}),
    "tracelens_unit__moe_03.json.gz": (0.95, 1, {"device_records_lost", "work_without_launch"}),
}


def test_every_file_is_known(data):
    files = {path.name for path in (data / "field").iterdir() if path.is_file() and path.name != "README.md"}
    assert files == set(KNOWN) | REFUSED


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_without_events_there_is_nothing_to_say(data, name):
    with pytest.raises(TraceError, match="holds no timed events"):
        summarise(data / "field" / name)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_busy_time_and_kernels_are_those_counted_by_hand(data, name):
    busy_ms, kernels, caveats = KNOWN[name]
    summary = summarise(data / "field" / name)
    assert summary.device.busy_ms == pytest.approx(busy_ms, abs=6e-4)
    assert summary.device.kernels == kernels
    assert caveats <= {c.code for c in summary.window.caveats}
    assert all(c.text.endswith(".") for c in summary.window.caveats)


def test_lost_kernels_are_never_called_idle_time(data):
    for name in ("derived__gpu_events_dropped_at_start.json.gz", "derived__ts0_dur0_kernels.json.gz"):
        summary = summarise(data / "field" / name)
        assert summary.gaps == ()
        assert summary.launch.recoverable_ms == 0.0
        assert all(wait.recoverable_ms == 0.0 for wait in summary.waits)


def test_a_cut_file_claims_no_gap(data):
    assert summarise(data / "field" / "derived__truncated_plain.json.gz").gaps == ()


def test_a_trace_of_the_host_alone_says_nothing_of_a_device(data):
    summary = summarise(data / "field" / "hta__cpu_only.json.gz")
    assert not summary.device.present
    assert summary.device.idle_ms == 0.0
    assert all(not gap.device for gap in summary.gaps)


def test_a_trace_without_operators_names_no_code(data):
    summary = summarise(data / "field" / "tracelens__mi210_gpu_only.json.gz")
    sites = [
        summary.launch.site,
        *(w.site for w in summary.waits),
        *(g.site for g in summary.gaps),
        *(k.site for k in summary.kernels),
    ]
    assert sites == [None] * len(sites)
    assert (summary.device.small_kernels, summary.device.kernels) == (444, 562)


def test_three_kinds_of_sync_are_told_apart(data):
    waits = {w.cause: w for w in summarise(data / "field" / "hta__event_sync.json.gz").waits}
    assert {cause: round(w.total_ms * 1000) for cause, w in waits.items() if cause != "item"} == {
        "event_sync": 34,
        "device_sync": 8,
    }
    assert waits["item"].copy_bytes == 1


def test_the_allocator_shows_where_it_was_the_first_call(data):
    allocs = {a.api: a for a in summarise(data / "field" / "hta__alexnet.json.gz").allocs}
    assert (allocs["cudaMalloc"].count, allocs["cudaFree"].count) == (24, 15)


def test_a_graph_launch_stands_for_all_its_kernels(data):
    summary = summarise(data / "field" / "tracelens__vllm_decode.json.gz")
    assert summary.device.graph_launches == 1
    assert summary.requests[0].kernels == 425
    assert "graphs_already" in summary.launch.hazards
    assert summary.launch.recoverable_ms == 0.0


def test_launch_bound_bert_has_its_layers_as_code(data):
    summary = summarise(data / "field" / "tracelens__bert_small.json.gz")
    assert summary.device.small_kernels == 58
    assert summary.launch.recoverable_ms > 0.5 * summary.request_p50_ms
    assert summary.launch.site.file == "transformers/models/bert/modeling_bert.py"
    assert summary.window.basis == "step"
