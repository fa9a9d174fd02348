"""What lies at the edge of a recording, and what was not recorded, is put down to nobody."""

from dataclasses import replace

import pytest
from midwatch.model.finding import Kind, Verdict
from midwatch.model.site import Site
from midwatch.model.trace import Caveat, DeviceFacts, GapFacts, KernelFacts, LaunchFacts, WaitFacts
from midwatch_server.diagnosis import Evidence, diagnose

SOFTMAX = KernelFacts("softmax", "softmax", 12, 4.0, 300.0, 0.7)
GEMM = KernelFacts("gemm", "gemm", 12, 2.0, 150.0, 0.3)


@pytest.fixture
def marked(make):
    """Requests of 20 ms: 14 ms of input, then 6 ms of which the device works 5; how they are marked is asked for."""

    def made(basis, requests):
        site = Site("app/prepare.py", 10, "normalize")
        gap = GapFacts("python", requests, 14.0 * requests, 14.0, requests, 14.0, 14.0, site=site, leading=True)
        plain = make.window(wall_ms=20.0, busy_ms=5.0, host_ms=18.0, requests=requests, gaps=(gap,))
        window = replace(plain.window, basis=basis)
        return diagnose(Evidence(summary=replace(plain, window=window, kernels=(SOFTMAX, GEMM))))

    return made


def test_before_the_first_launch_of_a_lone_step_nothing_is_blamed(marked):
    diagnosis = marked("step", 1)
    assert [finding.kind for finding in diagnosis.findings] == [Kind.KERNEL_BOUND]
    assert diagnosis.findings[0].evidence[0] == "The device works for 83 % of the step from its first launch on"
    (note,) = diagnosis.notes
    assert note.title.endswith(
        "one profiler step does not show whether each request does this, or only the script around it"
    )
    assert (note.per_request_ms, note.advice) == (14.0, ())


@pytest.mark.parametrize(("basis", "requests"), [("step", 3), ("annotation", 1), ("ledger", 1)])
def test_what_recurs_or_was_marked_as_a_request_s_is_a_finding(marked, basis, requests):
    diagnosis = marked(basis, requests)
    assert [finding.kind for finding in diagnosis.findings] == [Kind.HOST_GAP], "the device works for a quarter of it"
    assert "does not show whether" not in diagnosis.findings[0].title
    assert diagnosis.findings[0].advice


def unmarked(make, *, idle_ms, kernels=40):
    plain = make.window(wall_ms=100.0, busy_ms=55.0, requests=1)
    device = replace(plain.device, busy_ms=55.0, idle_ms=idle_ms, kernels=kernels)
    return replace(plain, window=replace(plain.window, basis="window", duration_ms=100.0), device=device)


def test_of_a_window_without_marks_the_device_is_judged_from_its_first_work_to_its_last(make):
    diagnosis = diagnose(Evidence(summary=unmarked(make, idle_ms=5.0)))
    assert diagnosis.verdict is Verdict.CLEAN
    assert diagnosis.reason.startswith("Device-bound: the device works for 92 % of the time from its first to its last")


def test_one_kernel_is_no_stretch_of_work(make):
    diagnosis = diagnose(Evidence(summary=unmarked(make, idle_ms=0.0, kernels=1)))
    assert "The device works for 55 % of the window" in diagnosis.reason


def test_where_little_of_the_window_has_device_work_the_whole_window_counts(make):
    plain = unmarked(make, idle_ms=5.0)
    device = replace(plain.device, busy_ms=10.0, idle_ms=1.0)
    requests = tuple(replace(one, device_busy_ms=10.0) for one in plain.requests)
    diagnosis = diagnose(Evidence(summary=replace(plain, device=device, requests=requests)))
    assert "The device works for 10 % of the window" in diagnosis.reason


def test_device_work_is_a_share_of_the_untraced_request(make):
    """The profiler slows the host and not the device: 4 ms of 10 ms traced are 4 ms of 5 ms without it."""
    plain = make.window()
    evidence = Evidence(summary=replace(plain, window=replace(plain.window, untraced_factor=0.5)))
    assert evidence.busy_share() == pytest.approx(0.8)


def launching(make, *caveats, lanes=("host_ops", "runtime", "device")):
    """Forty tiny launches a request that leave the device idle."""
    plain = make.window(busy_ms=1.0, lanes=lanes)
    device = DeviceFacts(present=True, busy_ms=10.0, idle_ms=90.0, launches=400, kernels=400, small_kernels=400)
    launch = LaunchFacts(per_request=40.0, dispatch_gap_ms=6.0, recoverable_ms=6.0)
    gaps = (GapFacts("unknown", 10, 20.0, 2.0, 10, 2.0, 2.0),)
    window = replace(plain.window, caveats=caveats)
    return diagnose(Evidence(summary=replace(plain, window=window, device=device, launch=launch, gaps=gaps)))


@pytest.mark.parametrize(
    ("code", "launches", "unseen"),
    [("no_operators", 0, True), ("ops_missing_on_thread", 380, True), ("ops_missing_on_thread", 20, False)],
)
def test_threads_of_which_only_launches_were_recorded_are_not_blamed(make, code, launches, unseen):
    diagnosis = launching(make, Caveat(code, "Missing.", launches))
    assert ([finding.kind for finding in diagnosis.findings] == []) is unseen
    assert (diagnosis.notes == ()) is unseen
    assert ("nothing else" in diagnosis.reason) is unseen


def test_samples_tell_what_such_threads_did(make):
    lanes = ("runtime", "device", "samples")
    assert launching(make, Caveat("no_operators", "Missing."), lanes=lanes).findings[0].kind is Kind.LAUNCH_BOUND


def test_a_factor_that_changes_nothing_is_not_spoken_of(make):
    plain = make.window()
    codes = [
        {caveat.code for caveat in diagnose(Evidence(summary=replace(plain, window=window))).caveats}
        for window in (replace(plain.window, untraced_factor=factor) for factor in (1.0, 0.998, 0.9))
    ]
    assert codes == [{"untraced_unknown"}, set(), {"untraced_factor"}]


def test_kernels_per_request_leave_out_those_of_requests_that_were_cut(make):
    """Of 10 requests of 40 kernels, and two that were cut, 30 of each 40 kernels are matrix products."""
    plain = make.window(wall_ms=10.0, busy_ms=9.0)
    slow = KernelFacts("gemm_" + "t" * 80, "gemm", 345, 90.0, 260.0, 0.9, dtype="float32", tensor_cores="no")
    device = replace(plain.device, kernels=460)
    diagnosis = diagnose(Evidence(summary=replace(plain, kernels=(slow,), device=device)))
    (found,) = diagnosis.findings
    assert found.occurrences_per_request == pytest.approx(30)
    assert found.evidence[1].startswith("gemm_" + "t" * 52 + "...: 30 per request")


def test_a_note_names_no_remedy(make):
    wait = WaitFacts("item", "cudaStreamSynchronize", 10, 30.0, 3.0, 10, 3.0, 0.0, followed_by_work=10)
    (note,) = diagnose(Evidence(summary=make.window(busy_ms=9.0, waits=(wait,)))).notes
    assert (note.kind, note.advice) == (Kind.HOT_SYNC, ())
