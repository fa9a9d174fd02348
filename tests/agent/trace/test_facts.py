"""Facts one by one, on hand-made traces."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from midwatch.trace import apis, summarise
from midwatch.trace.frames import builtin_name, is_own, parse_python_name
from midwatch.trace.hostfacts import self_times
from midwatch.trace.intervals import Cover
from midwatch.trace.kernels import base_name, dtype_of, family_of, tensor_cores
from midwatch.trace.shapes import shape_text

CUTLASS = "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_tn_align1>(cutlass_80_simt_sgemm_64x64_8x5_tn::Params)"
TENSOROP = "void cutlass::Kernel<cutlass_80_tensorop_s16816gemm_bf16_256x128_32x3_nn_align8>(Params)"
FFMA = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_warpsize4x2x1_ffma_aligna4_alignc4"
MUL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, "
    "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int, std::array<char*, 2ul>)"
)


@pytest.mark.parametrize(
    ("name", "family", "cores"),
    [
        (CUTLASS, "gemm", "no"),
        (TENSOROP, "gemm", "yes"),
        (FFMA, "gemm", "no"),
        ("ampere_sgemm_128x64_tn", "gemm", "no"),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn", "gemm", "yes"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_gmma", "gemm", "yes"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "gemm", "yes"),
        ("Cijk_Ailk_Bljk_BBS_BH_Bias_MT64x64x64_MI16x16x1", "gemm", "yes"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float>(float)", "gemm", "unknown"),
        ("void pytorch_flash::flash_fwd_kernel<cutlass::half_t>(Params)", "attention", "yes"),
        ("void cudnn::ops::nchwToNhwcKernel<float>", "other", "unknown"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc", "conv", "yes"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 8>(float*)", "softmax", "unknown"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(int)", "norm", "unknown"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "collective", "unknown"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, MeanOps> >", "reduction", "unknown"),
        (MUL, "elementwise", "unknown"),
        ("triton_poi_fused_add_cos_sin_0", "elementwise", "unknown"),
        ("void at::native::indexSelectLargeIndex<float, long>", "index", "unknown"),
        ("void at::native::sbtopk::gatherTopK<float>", "sort", "unknown"),
        ("something_new", "other", "unknown"),
    ],
)
def test_kernels_are_told_by_their_names(name, family, cores):
    assert (family_of(name), tensor_cores(name)) == (family, cores)


def test_names_of_kernels_are_short_and_keep_what_tells_them_apart():
    assert base_name(CUTLASS) == "cutlass_80_simt_sgemm_64x64_8x5_tn_align1"
    assert base_name(MUL) == "vectorized_elementwise_kernel MulFunctor"
    assert base_name("void (anonymous namespace)::softmax_warp_forward<float>(float*)") == "softmax_warp_forward"
    assert [dtype_of(n) for n in (FFMA, TENSOROP, "nvjet_sm90_hsh_1", "x")] == ["float32", "bfloat16", "float16", ""]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernelExC", apis.LAUNCH),
        ("cuLaunchKernel", apis.LAUNCH),
        ("hipExtModuleLaunchKernel", apis.LAUNCH),
        ("hipGraphLaunch", apis.GRAPH),
        ("hipMemcpyWithStream", apis.MEMCPY),
        ("cudaMemsetAsync", apis.MEMSET),
        ("cuCtxSynchronize", apis.DEVICE_SYNC),
        ("hipDeviceSynchronize", apis.DEVICE_SYNC),
        ("cudaStreamSynchronize", apis.STREAM_SYNC),
        ("cudaEventSynchronize", apis.EVENT_SYNC),
        ("cudaFree", apis.FREE),
        ("cudaMalloc", apis.ALLOC),
        ("cudaHostAlloc", apis.ALLOC),
        ("hipModuleLoadData", apis.OTHER),
        ("cudaStreamWaitEvent", apis.OTHER),
        ("cudaEventQuery", apis.OTHER),
        ("cudaGetDevice", apis.OTHER),
    ],
)
def test_calls_are_told_by_their_names(name, kind):
    assert apis.api_kind(name) == kind


def test_python_names_are_read_and_own_code_is_told_from_libraries():
    frame = parse_python_name("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py(1783): _call_impl")
    assert (frame.file, frame.line, frame.function) == ("torch/nn/modules/module.py", 1783, "_call_impl")
    own = {
        "scenarios.py(40): record_confidence": True,
        "app/serve.py(3): handler": True,
        "transformers/models/bert/modeling_bert.py(651): forward": True,
        "torch/nn/modules/linear.py(130): forward": False,
        "typing.py(392): inner": False,
        "/usr/lib/python3.12/threading.py(1030): _bootstrap": False,
        "<frozen os>(779): getenv": False,
        "midwatch/requests/marks.py(3): __enter__": False,
    }
    assert {name: is_own(parse_python_name(name)) for name in own} == own
    assert parse_python_name("nn.Module: MLP_0") is None
    assert builtin_name("<built-in method write of _io.TextIOWrapper object at 0x7f>") == "write"
    assert builtin_name("scenarios.py(40): write") == ""


def test_shapes_are_written_as_people_do():
    assert shape_text(b"[[64, 512], [512], []]", b'["float", "c10::BFloat16", "Scalar"]') == "f32[64,512] x bf16[512]"
    assert shape_text(b"", b"") == shape_text(b"not json", b"{}") == ""


def test_intervals_are_merged_and_measured():
    cover = Cover.union(np.array([30, 0, 5, 50]), np.array([40, 10, 20, 50]))
    assert (cover.starts.tolist(), cover.ends.tolist(), cover.total) == ([0, 30], [20, 40], 30)
    assert [cover.inside(*w) for w in ((0, 100), (-5, 10), (15, 35), (20, 30), (9, 9))] == [30, 10, 10, 0, 0]
    assert cover.holes(-5, 60) == [(-5, 0), (20, 30), (40, 60)]
    assert cover.clipped(10, 35) == [(10, 20), (30, 35)]
    assert Cover.union(np.array([], np.int64), np.array([], np.int64)).holes(1, 3) == [(1, 3)]


def test_an_operator_s_own_time_is_without_what_it_calls():
    starts, ends = np.array([0, 10, 20, 60]), np.array([100, 50, 30, 90])
    assert self_times(starts, ends, np.array([1, 1, 1, 1])).tolist() == [30, 30, 10, 30]


@pytest.mark.parametrize(
    ("copy", "size", "api", "call_us", "sync", "cause"),
    [
        ("Memcpy DtoH (Device -> Pageable)", 4, "cudaMemcpyAsync", 300, False, "item"),
        ("Memcpy DtoH (Device -> Pinned)", 8, "cudaMemcpyAsync", 5, True, "item"),
        ("Memcpy DtoH (Device -> Pageable)", 4096, "cudaMemcpyAsync", 300, False, "d2h"),
        ("Memcpy DtoH (Device -> Host)", 4096, "hipMemcpyWithStream", 300, False, "d2h"),
        ("Memcpy DtoD (Device -> Device)", 1, "hipMemcpyWithStream", 300, False, "item"),
        ("Memcpy HtoD (Pageable -> Device)", 4096, "cudaMemcpyAsync", 5, True, "h2d_pageable"),
        ("Memcpy HtoD (Pageable -> Device)", 4096, "cudaMemcpyAsync", 300, False, "h2d_pageable"),
        ("Memcpy HtoD (Pinned -> Device)", 4096, "cudaMemcpyAsync", 5, False, None),
        ("Memcpy DtoD (Device -> Device)", 4096, "cudaMemcpyAsync", 5, False, None),
        ("Memcpy DtoH (Device -> Pinned)", 4096, "cudaMemcpyAsync", 8, False, None),
    ],
)
def test_a_blocking_copy_is_a_wait_wherever_it_hides(lanes, tmp_path, copy, size, api, call_us, sync, cause):
    lanes.launch(0, 5, 6, 280)
    link = lanes.call(api, 10, 10 + call_us)
    lanes.work("gpu_memcpy", copy, 281, 285, link, bytes=size)
    if sync:
        lanes.call("cudaStreamSynchronize", 17, 310)
    lanes.launch(320, 5, 326, 330)
    lanes.request(0, 340)
    waits = summarise(lanes.write(tmp_path)).waits
    assert [w.cause for w in waits] == ([cause] if cause else [])
    if cause:
        assert (waits[0].count, waits[0].followed_by_work, waits[0].launches_after) == (1, 1, 1)
        assert waits[0].total_ms == pytest.approx(0.3)


def test_freeing_memory_waits_for_the_device_only_if_the_device_works(lanes, tmp_path):
    lanes.launch(0, 5, 6, 900)
    lanes.call("cudaFree", 10, 905)
    lanes.launch(910, 5, 916, 930)
    lanes.call("cudaFree", 1000, 1900)
    lanes.launch(1910, 5, 1916, 1930)
    lanes.request(0, 2000)
    summary = summarise(lanes.write(tmp_path))
    assert [(w.cause, w.count) for w in summary.waits] == [("free", 1)]
    assert [(a.api, a.count, a.requests_affected) for a in summary.allocs] == [("cudaFree", 2, 1)]
    assert [g.host for g in summary.gaps] == ["alloc"]
    assert "empty_cache" in summary.launch.hazards


def test_the_wait_of_the_profiler_s_own_end_is_nobody_s(lanes, tmp_path):
    lanes.launch(0, 5, 6, 100)
    lanes.request(0, 20)
    lanes.call("cudaDeviceSynchronize", 30, 105)
    assert summarise(lanes.write(tmp_path)).waits == ()


def test_idle_time_is_split_by_who_was_late(lanes, tmp_path):
    lanes.launch(0, 5, 10, 110)
    lanes.launch(200, 5, 250, 350)  # launched 90 us after the device was free, started 50 us later
    lanes.request(0, 360)
    lanes.launch(400, 5, 406, 500)  # 10 us inside the first request, 30 us of nobody's, 10 us inside the second
    lanes.request(390, 510)
    device = summarise(lanes.write(tmp_path)).device
    assert device.busy_ms == pytest.approx(0.294)
    assert device.idle_ms == pytest.approx(0.196)
    assert device.idle_host_late_ms == pytest.approx(0.090 + 0.010 + 0.010)
    assert device.idle_waiting_ms == pytest.approx(0.030)
    assert device.idle_launch_latency_ms == pytest.approx(0.050 + 0.006)
    assert device.idle_unknown_ms == 0.0


def test_launches_without_kernels_are_a_missing_lane_and_no_idle_device(lanes, tmp_path):
    for at in range(0, 500, 50):
        lanes.call("cudaLaunchKernel", at, at + 5)
    lanes.op("aten::mm", 0, 10)
    lanes.request(0, 5000)
    summary = summarise(lanes.write(tmp_path))
    assert next(c.code for c in summary.window.caveats) == "device_lane_missing"
    assert (summary.device.present, summary.device.launches_without_kernel) == (False, 10)
    assert summary.gaps == ()
    assert summary.launch.recoverable_ms == 0.0


def test_records_lost_at_the_edge_of_a_window_leave_the_rest_of_it(machine, tmp_path):
    """The last kernels end after the window and are dropped; what lies before them is told all the same."""
    for _ in range(40):
        machine.think(20)
        machine.kernel(2)
    for _ in range(5):
        machine.lanes.call("cudaLaunchKernel", machine.clock, machine.clock + 5)
        machine.think(10)
    summary = summarise(machine.lanes.write(tmp_path))
    assert summary.window.basis == "window"
    assert summary.device.launches_without_kernel == 4, "the first of them found the device at work"
    assert summary.launch.per_request == 40
    assert summary.launch.recoverable_ms > 0.5


def test_launches_that_a_graph_captures_are_not_missing(lanes, tmp_path):
    lanes.call("cudaStreamBeginCapture", 0, 5)
    for at in range(10, 100, 10):
        lanes.call("cudaLaunchKernel", at, at + 5)
    lanes.call("cudaStreamEndCapture", 110, 115)
    link = lanes.call("cudaGraphLaunch", 120, 130)
    for at in range(140, 230, 10):
        lanes.work("kernel", "k", at, at + 8, link)
    lanes.request(0, 300)
    summary = summarise(lanes.write(tmp_path))
    assert (summary.device.launches, summary.device.graph_launches, summary.device.kernels) == (1, 1, 9)
    assert summary.device.launches_without_kernel == 0
    assert "graph_captured" in [c.code for c in summary.window.caveats]


def test_a_changing_sequence_is_no_candidate_for_a_graph(machine, tmp_path):
    def program(m, extra=0):
        for _ in range(30 + extra):
            m.think(5)
            m.kernel(2)
        m.read(4096)

    for extra in (0, 0, 3):
        machine.run(lambda m, extra=extra: program(m, extra))
    launch = summarise(machine.lanes.write(tmp_path)).launch
    assert (launch.stable_sequence, launch.sequences) == (False, 2)
    assert "changing_sequence" in launch.hazards


def test_steps_and_requests_are_told_from_other_annotations(lanes, tmp_path):
    lanes.op("aten::mm", 0, 10)
    for number in range(3):
        lanes.request(number * 100, number * 100 + 90, f"ProfilerStep#{number}")
        lanes.request(number * 100 + 5, number * 100 + 40, "Optimizer.step#Adam.step")
    summary = summarise(lanes.write(tmp_path))
    assert (summary.window.basis, summary.window.requests) == ("step", 3)
    for number in range(2):
        lanes.request(number * 100 + 1, number * 100 + 80, "request")
    summary = summarise(lanes.write(tmp_path))
    assert (summary.window.basis, summary.window.requests) == ("annotation", 2)


def test_many_requests_are_thinned_and_the_slowest_stays(lanes, tmp_path):
    lanes.op("aten::mm", 0, 10)
    for number in range(300):
        lanes.request(number * 100, number * 100 + (95 if number == 137 else 50))
    summary = summarise(lanes.write(tmp_path))
    assert summary.window.requests == 300
    assert len(summary.requests) == 64
    assert [r.start_ms for r in summary.requests if r.slowest] == [13.7]


def test_reading_a_trace_needs_neither_torch_nor_grpc_nor_a_database():
    code = "import midwatch.trace, sys; print({'torch', 'grpc', 'google', 'sqlalchemy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_launches_of_other_threads_are_counted(tmp_path, lanes):
    lanes.request(0, 1000)
    lanes.op("aten::mm", 10, 60)
    lanes.launch(20, 5, 30, 40)
    for at in range(100, 900, 100):
        lanes.launch(at, 5, at + 10, at + 20, tid=200)
    (caveat,) = [c for c in summarise(lanes.write(tmp_path)).window.caveats if c.code == "ops_missing_on_thread"]
    assert caveat.count == 8
    assert caveat.text.startswith("8 of 9 launches came from threads whose operators were not recorded")


def queued_at_the_end(lanes, *, known=4, launched=10):
    """Launches every 5 us of kernels of 100 us; only the first of them ran before the recording ended."""
    lanes.request(0, 300)
    for number in range(launched):
        link = lanes.call("cudaLaunchKernel", number * 5, number * 5 + 4)
        if number < known:
            lanes.work("kernel", "k", 10 + number * 100, 110 + number * 100, link)


def codes(summary):
    return [caveat.code for caveat in summary.window.caveats]


def test_what_stood_in_line_when_the_recording_ended_is_not_lost(lanes, tmp_path):
    queued_at_the_end(lanes)
    summary = summarise(lanes.write(tmp_path))
    assert summary.device.launches_without_kernel == 0
    assert (codes(summary).count("work_queued_at_end"), "device_records_lost" in codes(summary)) == (1, False)
    assert summary.launch.recoverable_ms == 0.0, "the request itself is not whole"


def test_what_was_waited_for_did_run_and_its_records_are_lost(lanes, tmp_path):
    queued_at_the_end(lanes)
    lanes.call("cudaDeviceSynchronize", 60, 1020)
    summary = summarise(lanes.write(tmp_path))
    assert summary.device.launches_without_kernel == 6
    assert ("work_queued_at_end" in codes(summary), "device_records_lost" in codes(summary)) == (False, True)


def test_a_wait_for_an_event_may_have_been_for_what_has_no_record(lanes, tmp_path):
    queued_at_the_end(lanes)
    lanes.call("cudaEventSynchronize", 60, 1020)
    summary = summarise(lanes.write(tmp_path))
    assert summary.device.launches_without_kernel == 6


def test_launches_may_have_been_for_the_device_that_was_idle(lanes, tmp_path):
    queued_at_the_end(lanes)
    lanes.work("kernel", "k", 1, 9, lanes.call("cudaLaunchKernel", 0, 1), device=1)
    summary = summarise(lanes.write(tmp_path))
    assert summary.device.launches_without_kernel == 6


def test_what_was_launched_to_an_idle_device_should_have_run(lanes, tmp_path):
    queued_at_the_end(lanes, known=4, launched=4)
    for at in range(600, 650, 10):
        lanes.call("cudaLaunchKernel", at, at + 4)
    summary = summarise(lanes.write(tmp_path))
    assert summary.device.launches_without_kernel == 5


def test_work_that_seems_to_end_before_its_launch_was_never_queued(lanes, tmp_path):
    """The clocks of host and device are apart by microseconds."""
    lanes.request(0, 500)
    for at in range(10, 400, 20):
        lanes.launch(at, 5, at - 8, at - 6)
    device = summarise(lanes.write(tmp_path)).device
    assert (device.queue_depth_mean, device.queue_depth_max) == (0.0, 0)


def test_a_size_that_no_device_holds_is_none(lanes, tmp_path):
    lanes.request(0, 500)
    for number, size in enumerate((100, 2**62, 2**62, 2**62, 50)):
        link = lanes.call("cudaMemcpyAsync", 10 + number * 20, 15 + number * 20)
        lanes.work(
            "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 20 + number * 20, 22 + number * 20, link, bytes=size
        )
    summary = summarise(lanes.write(tmp_path))
    assert (summary.device.copy_bytes, [copies.bytes for copies in summary.copies]) == (150, [150])


def test_a_window_that_no_clock_shows_has_no_moment(lanes, tmp_path):
    lanes.request(0, 500)
    lanes.op("aten::mm", 10, 400)
    path = tmp_path / "odd.json"
    for base_ns, shown in ((2**63 - 5000, 0), (7_258_118_400 * 10**9, 0), (1_700_000_000 * 10**9, True)):
        head = {**json.loads(lanes.text()), "baseTimeNanoseconds": base_ns}
        path.write_text(json.dumps(head))
        assert bool(summarise(path).window.start_unix_ns) is bool(shown)
