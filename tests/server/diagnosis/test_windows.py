"""What is said of a window's facts."""

import dataclasses

import pytest
from midwatch.model.finding import Kind, Verdict
from midwatch.model.site import Site
from midwatch.model.trace import (
    AllocFacts,
    Caveat,
    ClassTime,
    CompileFacts,
    CopyFacts,
    GapFacts,
    GcFacts,
    KernelFacts,
    LaunchFacts,
    LockFacts,
    WaitFacts,
    Window,
)
from midwatch_server.diagnosis import Evidence, diagnose
from midwatch_server.diagnosis.peaks import peak_of, predicted_speedup
from midwatch_server.diagnosis.words import ms

FP32 = KernelFacts(
    "sm80_xmma_gemm_f32f32", "gemm", 30, 64.0, 2133.0, 0.8, tensor_cores="no", dtype="float32",
    site=Site("app/ranker.py", 200, "score", how="python_function"),
)  # fmt: skip
LAUNCHES = LaunchFacts(
    per_request=360.0,
    median_launch_us=5.0,
    per_launch_host_us=20.0,
    dispatch_gap_ms=6.0,
    recoverable_ms=5.5,
    replayed_ms=4.5,
    stable_sequence=True,
    sequences=1,
    stable_shapes=True,
    site=Site("app/ranker.py", 169, "forward", exact=True, how="sample"),
)


def judge(summary):
    return diagnose(Evidence(summary=summary))


def wait(site, **more):
    facts = {"cause": "item", "api": "cudaStreamSynchronize", "count": 10, "total_ms": 26.0, "max_ms": 4.9,
             "requests_affected": 10, "per_request_ms": 2.6, "recoverable_ms": 2.4, "followed_by_work": 10}  # fmt: skip
    return WaitFacts(**(facts | {"site": site} | more))


def gap(site, **more):
    facts = {"host": "python", "count": 10, "total_ms": 49.0, "max_ms": 5.2, "requests_affected": 10,
             "per_request_ms": 4.9, "recoverable_ms": 4.8}  # fmt: skip
    return GapFacts(**(facts | {"site": site} | more))


def tiny_kernels(make, **launch):
    summary = make.window(busy_ms=2.0)
    device = dataclasses.replace(summary.device, launches=3600, kernels=3600, small_kernels=3500, median_kernel_us=1.8)
    return dataclasses.replace(summary, device=device, launch=dataclasses.replace(LAUNCHES, **launch))


@pytest.mark.parametrize(
    ("small", "words"),
    [(1800, "launches of mostly tiny kernels"), (900, "launches, 25 % of them of tiny kernels,"), (899, "")],
)
def test_launches_are_a_cause_where_many_kernels_are_tiny(make, small, words):
    summary = tiny_kernels(make)
    device = dataclasses.replace(summary.device, small_kernels=small)
    found = [f for f in judge(dataclasses.replace(summary, device=device)).findings if f.kind is Kind.LAUNCH_BOUND]
    assert [words in finding.title for finding in found] == ([True] if words else [])


def test_a_wait_with_work_behind_it_is_a_hot_sync(make):
    summary = make.window(waits=(wait(make.RANK, launches_after=240.0, starts_ms=(12.304, 23.1), copy_bytes=40),))
    (finding,) = judge(summary).findings
    assert finding.title == (
        "`.item()` in rank (app/ranker.py:41) makes the host wait 2.6 ms in every request while 240 launches follow"
    )
    assert (finding.per_request_ms, finding.recoverable_ms, finding.share_of_request) == (2.6, 2.4, 0.26)
    assert finding.evidence[0] == (
        "cudaStreamSynchronize: 10 waits, 26.0 ms traced, the longest 4.9 ms; look at 12.304, 23.100 ms of the window"
    )
    assert finding.evidence[-1] == "Replayed without the wait, the request takes 7.6 ms instead of 10.0 ms"


def test_the_hand_over_of_the_result_is_none(make):
    diagnosis = judge(make.window(busy_ms=9.6, waits=(wait(make.RANK, handover=10, followed_by_work=0),)))
    assert diagnosis.verdict is Verdict.CLEAN
    assert diagnosis.notes == ()
    assert diagnosis.reason == (
        "Device-bound: the device works for 96 % of the request, and the only wait is the hand-over of its result."
    )


def test_a_sync_that_gains_nothing_is_a_note_however_long_it_takes(make):
    diagnosis = judge(make.window(busy_ms=9.6, waits=(wait(make.RANK, per_request_ms=9.0, recoverable_ms=0.1),)))
    assert diagnosis.findings == ()
    (note,) = diagnosis.notes
    assert note.kind is Kind.HOT_SYNC
    assert "so this is not the cause" in note.evidence[-1]
    assert diagnosis.verdict is Verdict.CLEAN


def test_milliseconds_are_untraced_and_the_factor_is_a_caveat(make):
    summary = make.window(waits=(wait(make.RANK),))
    slowed = dataclasses.replace(summary, window=dataclasses.replace(summary.window, untraced_factor=0.5))
    diagnosis = judge(slowed)
    assert diagnosis.findings[0].recoverable_ms == 1.2
    assert diagnosis.findings[0].share_of_request == pytest.approx(2.6 / 5.0)
    assert [caveat.code for caveat in diagnosis.caveats] == ["untraced_factor"]
    assert [caveat.code for caveat in judge(summary).caveats] == ["untraced_unknown"]


@pytest.mark.parametrize(("affected", "wall_ms", "named"), [(1, 15.0, False), (1, 40.0, True), (2, 15.0, True)])
def test_a_hiccup_of_one_request_counts_only_where_it_makes_it_stand_out(make, affected, wall_ms, named):
    summary = make.window()
    slow = [dataclasses.replace(request, wall_ms=wall_ms) for request in summary.requests[:affected]]
    facts = gap(make.RANK, per_request_ms=8.0, recoverable_ms=8.0, requests_affected=affected, starts_ms=(1.0,))
    hiccup = dataclasses.replace(summary, requests=(*slow, *summary.requests[affected:]), gaps=(facts,))
    diagnosis = judge(hiccup)
    assert bool(diagnosis.findings) is named
    assert bool(diagnosis.notes) is not named


def test_the_request_of_a_rare_fault_is_the_affected_one(make):
    summary = make.window()
    slow = dataclasses.replace(summary.requests[3], wall_ms=50.0)
    requests = (*summary.requests[:3], slow, *summary.requests[4:])
    facts = gap(make.RANK, count=1, per_request_ms=40.0, recoverable_ms=40.0, requests_affected=1, starts_ms=(40.0,))
    (finding,) = judge(dataclasses.replace(summary, requests=requests, gaps=(facts,))).findings
    assert finding.share_of_request == pytest.approx(0.8)
    assert "in 1 of 10 requests" in finding.title


@pytest.mark.parametrize(
    ("host", "callee", "device", "title"),
    [
        ("python", "", True, "Python runs in {} for 4.9 ms in every request while the device idles"),
        (
            "blocked",
            "write",
            True,
            "`write()` in {} blocks for 4.9 ms in every request while the device idles",
        ),
        ("python", "", False, "Python runs in {} for 4.9 ms in every request while no operator runs"),
    ],
)
def test_a_gap_says_what_the_host_did(make, host, callee, device, title):
    facts = gap(dataclasses.replace(make.RANK, callee=""), host=host, callee=callee, device=device)
    (finding,) = judge(make.window(gaps=(facts,))).findings
    assert (finding.kind, finding.title) == (Kind.HOST_GAP, title.format("rank (app/ranker.py:41)"))


@pytest.mark.parametrize("host", ["gc", "lock", "alloc", "compile", "dispatch"])
def test_gaps_that_belong_to_other_rules_are_not_claimed_twice(make, host):
    assert judge(make.window(gaps=(gap(make.RANK, host=host),))).findings == ()


def test_many_tiny_kernels_are_launch_bound_and_a_graph_candidate(make):
    (finding,) = judge(tiny_kernels(make)).findings
    assert finding.kind is Kind.LAUNCH_BOUND
    assert finding.title == (
        "360 launches of mostly tiny kernels in every request, most of them from forward (app/ranker.py:169), "
        "leave the device idle for 6.0 ms of 10.0 ms"
    )
    assert finding.graph_candidate.suitable
    assert finding.graph_candidate.predicted_ms == 4.5
    assert "reduce-overhead" in finding.advice[0].change


@pytest.mark.parametrize(
    ("launch", "reason"),
    [
        ({"stable_sequence": False, "sequences": 4}, "the launches are not the same each time"),
        ({"stable_shapes": False}, "shapes change, or were not recorded"),
        ({"hazards": ("side_streams",)}, "work runs on several streams"),
        ({"hazards": ("tensor_control_flow",)}, "control flow depends on the value of a tensor"),
        (
            {"hazards": ("one_request",), "stable_sequence": False, "stable_shapes": False},
            "one request does not show whether launches and shapes stay the same",
        ),
        (
            {"hazards": ("side_streams", "one_request")},
            "work runs on several streams; one request does not show whether launches and shapes stay the same",
        ),
    ],
)
def test_what_speaks_against_a_graph_is_named(make, launch, reason):
    (finding,) = judge(tiny_kernels(make, **launch)).findings
    assert not finding.graph_candidate.suitable
    assert finding.graph_candidate.reason == reason
    assert "reduce-overhead" not in finding.advice[0].change


def test_a_wait_inside_is_a_hazard_for_a_graph(make):
    summary = dataclasses.replace(
        tiny_kernels(make, hazards=("sync",)), waits=(wait(make.RANK, per_request_ms=0.1, recoverable_ms=0.0),)
    )
    diagnosis = judge(summary)
    assert [finding.kind for finding in diagnosis.findings] == [Kind.LAUNCH_BOUND]
    candidate = diagnosis.findings[0].graph_candidate
    assert candidate.hazards == ("sync",)
    assert candidate.reason == "the host waits for the device between the launches in rank (app/ranker.py:41)"
    assert [note.kind for note in diagnosis.notes] == [Kind.HOT_SYNC]


def test_large_kernels_are_not_launch_bound(make):
    summary = tiny_kernels(make)
    device = dataclasses.replace(summary.device, small_kernels=800)
    assert judge(dataclasses.replace(summary, device=device)).findings == ()


def test_fp32_products_are_kernel_bound_where_the_device_s_tensor_cores_are_known(make):
    summary = make.window(busy_ms=9.0, host_ms=1.0, kernels=(FP32,))
    (finding,) = judge(summary).findings
    assert finding.kind is Kind.KERNEL_BOUND
    assert finding.per_request_ms == pytest.approx(7.2)
    assert finding.recoverable_ms == pytest.approx(7.2 * (1 - 1 / predicted_speedup(peak_of("NVIDIA H200"))))
    assert "set_float32_matmul_precision" in finding.advice[0].change
    assert "launched in score (app/ranker.py)" in finding.title
    unknown = dataclasses.replace(summary, device=dataclasses.replace(summary.device, names=("Somebody's GPU",)))
    assert judge(unknown).verdict is Verdict.CLEAN


def test_a_gain_on_the_device_ends_where_the_host_is_the_limit(make):
    (finding,) = judge(make.window(busy_ms=9.0, host_ms=8.0, kernels=(FP32,))).findings
    assert finding.recoverable_ms == 2.0


def test_products_on_tensor_cores_are_clean(make):
    kernels = (dataclasses.replace(FP32, name="nvjet_tst_h_bz", tensor_cores="yes", dtype="bfloat16"),)
    assert judge(make.window(busy_ms=9.0, kernels=kernels)).verdict is Verdict.CLEAN


def test_softmax_beside_products_is_an_unfused_attention(make):
    softmax = KernelFacts("softmax_warp_forward", "softmax", 120, 30.0, 250.0, 0.4)
    gemm = dataclasses.replace(FP32, tensor_cores="yes", share=0.5)
    (finding,) = judge(make.window(busy_ms=9.0, host_ms=1.0, kernels=(softmax, gemm))).findings
    assert "scaled_dot_product_attention" in finding.advice[0].change
    assert finding.recoverable_ms == pytest.approx(0.5 * 0.4 * 9.0)
    fused = KernelFacts("flash_fwd_kernel", "attention", 10, 5.0, 500.0, 0.05)
    assert judge(make.window(busy_ms=9.0, host_ms=1.0, kernels=(softmax, gemm, fused))).findings == ()


def test_chains_of_elementwise_kernels_count_unless_they_are_fused(make):
    chain = KernelFacts("vectorized_elementwise_kernel", "elementwise", 200, 45.0, 225.0, 0.5)
    (finding,) = judge(make.window(busy_ms=9.0, host_ms=1.0, kernels=(chain,))).findings
    assert finding.recoverable_ms == pytest.approx(0.5 * 0.5 * 9.0)
    triton = dataclasses.replace(chain, name="triton_poi_fused_add_cos_0")
    assert judge(make.window(busy_ms=9.0, host_ms=1.0, kernels=(triton,))).findings == ()


@pytest.mark.parametrize("generation", [0, 2])
@pytest.mark.parametrize(("max_ms", "found"), [(0.8, False), (2.5, True)])
def test_a_short_automatic_collection_is_a_running_cost_and_no_cause(make, generation, max_ms, found):
    short = GcFacts(generation, 10, 10 * max_ms, max_ms, 10, max_ms)
    judged = judge(make.window(gc=(short,)))
    assert [finding.kind for finding in judged.findings] == [Kind.GC_PAUSE] * found
    assert found or [note.kind for note in judged.notes] == [Kind.GC_PAUSE]


def test_a_collection_in_one_request_is_measured_against_that_request(make):
    summary = make.window()
    slow = dataclasses.replace(summary.requests[5], wall_ms=200.0, gc_ms=190.0)
    facts = GcFacts(2, 1, 190.0, 190.0, 1, 190.0, explicit=True, site=dataclasses.replace(make.RANK, callee="collect"))
    requests = (*summary.requests[:5], slow, *summary.requests[6:])
    (finding,) = judge(dataclasses.replace(summary, requests=requests, gc=(facts,))).findings
    assert finding.title == "`gc.collect()` in rank (app/ranker.py:41) holds the request for 190 ms in 1 of 10 requests"
    assert finding.share_of_request == pytest.approx(0.95)


def test_automatic_collections_of_a_generation_are_one_cause_wherever_they_started(make):
    sites = [Site("app.py", 1, "f", exact=True), Site("app.py", 2, "g", exact=True)]
    facts = tuple(GcFacts(2, 1, 30.0, 30.0, 1, 30.0, collected=5, site=site) for site in sites)
    summary = make.window(gc=facts)
    held = tuple(dataclasses.replace(request, wall_ms=40.0, gc_ms=30.0) for request in summary.requests[:2])
    (finding,) = judge(dataclasses.replace(summary, requests=(*held, *summary.requests[2:]))).findings
    assert finding.site is None
    assert finding.title == "A garbage collection (generation 2) holds the request for 30.0 ms in 2 of 10 requests"


def test_a_collection_of_several_sites_is_looked_at_where_it_is_longest(make):
    short = GcFacts(2, 3, 12.0, 4.0, 3, 4.0, starts_ms=(1.0, 2.0, 3.0))
    long = GcFacts(2, 2, 60.0, 40.0, 2, 30.0, starts_ms=(90.0, 80.0))
    (finding,) = judge(make.window(gc=(short, long))).findings
    assert finding.evidence[1].endswith("; look at 1.000, 80.000, 90.000 ms of the window")


def two_routes(make, **facts):
    """Ten requests of 10 ms: the even ones of /slow, the odd ones of /fast."""
    summary = make.window(**facts)
    routes = ("/slow", "/fast") * 5
    requests = (
        dataclasses.replace(r, route=route, gc_ms=5.0) for r, route in zip(summary.requests, routes, strict=True)
    )
    return dataclasses.replace(summary, requests=tuple(requests))


@pytest.mark.parametrize(
    "facts",
    [
        {"gc": (GcFacts(2, 10, 50.0, 5.0, 10, 5.0),)},
        {"locks": (LockFacts("Lock RANKS", 10, 50.0, 10, 5.0),)},
        {"waits": (WaitFacts("item", "cudaStreamSynchronize", 10, 50.0, 5.0, 10, 5.0, 5.0),)},
        {"gaps": (GapFacts("python", 10, 50.0, 5.0, 10, 5.0, 5.0, site=Site("app.py", 1, "f", exact=True)),)},
    ],
    ids=["gc", "locks", "waits", "gaps"],
)
def test_a_route_is_blamed_only_for_what_is_known_to_be_all_its_own(make, facts):
    ((kind, (one,)),) = facts.items()
    listed = tuple(11.0 * number + 1 for number in (0, 2, 4, 6, 8))  # the longest: all in /slow

    def found(starts, **more):
        return judge(two_routes(make, **{kind: (dataclasses.replace(one, starts_ms=starts, **more),)})).findings[0]

    everywhere = found(listed)
    assert (everywhere.route, "/slow" in everywhere.title) == ("", False)
    assert "in every request" in everywhere.title
    own = found(listed, count=5, requests_affected=5)
    assert own.route == "/slow"
    assert "in every request of /slow" in own.title
    assert found((*listed[:4], 900.0), count=5, requests_affected=5).route == "", "one falls into no known request"


def test_device_figures_refer_to_the_requests_that_use_the_device(make):
    summary = make.window(busy_ms=9.0, host_ms=1.0, kernels=(FP32,))
    light = dataclasses.replace(
        summary.requests[0], wall_ms=0.2, launches=0, kernels=0, device_busy_ms=0.0, host_busy_ms=0.2
    )
    mixed = dataclasses.replace(summary, requests=(*summary.requests[:4], *([light] * 6)), request_p50_ms=0.2)
    (finding,) = judge(mixed).findings
    assert finding.requests_affected == 4
    assert finding.share_of_request == pytest.approx(0.72)
    assert "in 4 of 10 requests" in finding.title


def test_locks_compilations_and_copies_have_their_kinds(make):
    holder = Site("app/cache.py", 120, "refresh", exact=True, how="sample")
    summary = make.window(
        locks=(LockFacts("Lock RANKS", 10, 30.0, 10, 3.0, waiter=make.RANK, holder=holder, holder_thread="refresher"),),
        compiles=(CompileFacts("dynamo", 1, 80.0, 1),),
        copies=(CopyFacts("d2h", "Device -> Pageable", 10, 60_000_000, 20.0, 60.0),),
    )
    findings = {finding.kind: finding for finding in judge(summary).findings}
    assert set(findings) == {Kind.LOCK_WAIT, Kind.RECOMPILE, Kind.TRANSFER_BOUND}
    assert findings[Kind.LOCK_WAIT].related_site == holder
    # Each request copies 6 MB in 2 ms; pinned memory of an H200 would take 0.12 ms.
    assert findings[Kind.TRANSFER_BOUND].recoverable_ms == pytest.approx(1.88)


@pytest.mark.parametrize(("name", "gain_ms"), [("NVIDIA A100-SXM4-80GB", 1.75), ("Tesla T4", 1.5), ("Nobody's", 1.7)])
def test_the_gain_of_pinned_memory_is_that_of_the_device_s_link(make, name, gain_ms):
    summary = make.window(copies=(CopyFacts("d2h", "Device -> Pageable", 10, 60_000_000, 20.0, 60.0),))
    device = dataclasses.replace(summary.device, names=(name,))
    (finding,) = judge(dataclasses.replace(summary, device=device)).findings
    assert finding.recoverable_ms == pytest.approx(gain_ms)


@pytest.mark.parametrize(
    ("allocs", "kind"),
    [
        ((AllocFacts("cudaMalloc", 10, 20.0, 1), AllocFacts("cudaFree", 10, 20.0, 1)), Kind.ALLOC_THRASH),
        ((AllocFacts("cudaMalloc", 20, 20.0, 10),), Kind.ALLOC_THRASH),
        ((AllocFacts("cudaMalloc", 3, 40.0, 1),), Kind.FIRST_CALL),
    ],
)
def test_a_pool_that_grows_once_is_not_thrashing(make, allocs, kind):
    (finding,) = judge(make.window(allocs=allocs)).findings
    assert finding.kind is kind


@pytest.mark.parametrize(
    ("replayed_ms", "gain_ms", "found"), [(None, 2.0, True), (1.9, 1.9, True), (0.9, 0.9, True), (0.1, 0.1, False)]
)
def test_memory_taken_while_the_device_works_gains_what_the_replay_says(make, replayed_ms, gain_ms, found):
    allocs = tuple(AllocFacts(api, 10, 10.0, 10, recoverable_ms=replayed_ms) for api in ("cudaMalloc", "cudaFree"))
    diagnosis = judge(make.window(allocs=allocs))
    assert bool(diagnosis.findings) is found
    (told,) = (*diagnosis.findings, *diagnosis.notes)
    assert (told.per_request_ms, told.recoverable_ms) == (2.0, pytest.approx(gain_ms))
    assert [text for text in told.evidence if text.startswith("Replayed")] == (
        [f"Replayed without, the request takes {ms(gain_ms)} less; for the rest the host would wait for the device"]
        if gain_ms < 1.8
        else []
    )
    assert told.caveats[0].startswith("A lower bound")


@pytest.mark.parametrize(
    "facts",
    [
        {"gc": (GcFacts(2, 10, 50.0, 5.0, 10, 5.0, explicit=True, recoverable_ms=2.0),)},
        {
            "gc": (
                GcFacts(2, 5, 25.0, 5.0, 5, 5.0, recoverable_ms=1.0),
                GcFacts(2, 5, 25.0, 5.0, 5, 5.0, recoverable_ms=3.0),
            )
        },
        {"locks": (LockFacts("Lock RANKS", 10, 50.0, 10, 5.0, recoverable_ms=2.0),)},
        {"compiles": (CompileFacts("dynamo", 10, 50.0, 10, recoverable_ms=2.0),)},
    ],
)
def test_what_stops_the_host_while_the_device_works_gains_what_the_replay_says(make, facts):
    (finding,) = judge(make.window(**facts)).findings
    assert (finding.per_request_ms, finding.recoverable_ms) == (5.0, 2.0)
    assert (
        finding.evidence[-1]
        == "Replayed without, the request takes 2.0 ms less; for the rest the host would wait for the device"
    )


def test_launches_without_kernels_never_become_an_idle_device(make):
    summary = make.window(waits=(wait(make.RANK, recoverable_ms=2.4),), gaps=())
    device = dataclasses.replace(summary.device, kernels=0, small_kernels=0, busy_ms=0.0, launches_without_kernel=400)
    diagnosis = judge(dataclasses.replace(summary, device=device, launch=LAUNCHES))
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.findings == ()
    assert "device lane is missing" in diagnosis.reason
    assert "idle" not in diagnosis.reason
    assert diagnosis.notes[0].recoverable_ms == 0.0


def test_a_trace_of_the_device_alone_says_nothing_of_the_host(make):
    summary = make.window(busy_ms=2.0, lanes=("device",), gaps=(gap(None, host="unknown"),))
    diagnosis = judge(dataclasses.replace(summary, launch=LAUNCHES))
    assert diagnosis.findings == diagnosis.notes == ()
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.reason.startswith("Only the device was recorded")


def test_a_device_that_waits_for_other_ranks_is_not_called_clean(make):
    summary = make.window(busy_ms=9.5)
    device = dataclasses.replace(summary.device, classes=(ClassTime("collective", 80.0, 100),))
    diagnosis = judge(dataclasses.replace(summary, device=device))
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert "collectives" in diagnosis.reason


def test_an_idle_device_that_nothing_explains_is_not_called_clean(make):
    diagnosis = judge(make.window(busy_ms=2.0))
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert "does not explain the rest" in diagnosis.reason


@pytest.mark.parametrize(("op_ms", "verdict"), [(8.0, Verdict.CLEAN), (2.0, Verdict.INSUFFICIENT_DATA)])
def test_a_service_without_a_device_is_judged_by_its_operators(make, op_ms, verdict):
    summary = make.window(lanes=("host_ops",))
    requests = tuple(dataclasses.replace(request, op_ms=op_ms, device_busy_ms=0.0) for request in summary.requests)
    empty = dataclasses.replace(summary.device, present=False, launches=0, kernels=0, busy_ms=0.0)
    diagnosis = judge(dataclasses.replace(summary, requests=requests, device=empty))
    assert diagnosis.verdict is verdict
    assert "idle" not in diagnosis.reason


def test_a_trace_without_marks_speaks_of_the_window(make):
    summary = make.window(requests=1, waits=(wait(make.RANK, count=1, requests_affected=1),))
    unmarked = dataclasses.replace(summary, window=Window(0, 10.0, "window", 1, 0, summary.window.lanes))
    diagnosis = judge(unmarked)
    assert "in this window" in diagnosis.findings[0].title
    assert "no_requests" in [caveat.code for caveat in diagnosis.caveats]


def test_the_window_s_own_caveats_are_kept_and_not_repeated(make):
    summary = make.window()
    own = Caveat("untraced_factor", "0.5, by the ledger")
    window = dataclasses.replace(summary.window, untraced_factor=0.5, caveats=(own,))
    assert judge(dataclasses.replace(summary, window=window)).caveats == (own,)
