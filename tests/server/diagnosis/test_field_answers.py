"""Right answers on other people's traces, and none where they do not tell."""

from pathlib import Path

import pytest
from midwatch.model.finding import Kind, Verdict
from midwatch.trace import summarise
from midwatch_server.diagnosis import Evidence, diagnose

DATA = Path(__file__).parents[2] / "data"
HOST_KINDS = {Kind.HOST_GAP, Kind.LAUNCH_BOUND}
DEVICE_KINDS = {Kind.HOT_SYNC, Kind.LAUNCH_BOUND, Kind.KERNEL_BOUND, Kind.TRANSFER_BOUND, Kind.COLLECTIVE_WAIT}


def judge(name):
    summary = summarise(DATA / f"{name}.json.gz")
    return summary, diagnose(Evidence(summary=summary))


def kinds(findings):
    return [finding.kind for finding in findings]


def everything(diagnosis):
    return (*diagnosis.findings, *diagnosis.notes)


def test_softmax_holds_up_timesformer_and_no_wait_does():
    _, diagnosis = judge("kinds/tracelens__timesformer")
    (found,) = diagnosis.findings
    assert found.kind is Kind.KERNEL_BOUND
    assert found.title.startswith("Softmax kernels of an attention that is not fused take 68.8 ms")
    assert "scaled_dot_product_attention" in found.advice[0].change
    assert found.evidence[0] == "The device works for 96 % of the step from its first launch on"


def test_what_the_script_did_before_the_one_step_s_first_launch_is_a_note_that_says_why():
    _, diagnosis = judge("kinds/tracelens__timesformer")
    note = diagnosis.notes[0]
    assert note.kind is Kind.HOST_GAP
    assert note.title.startswith("The host prepares the input for 218 ms in the step before the first launch")
    assert note.title.endswith("does not show whether each request does this, or only the script around it")
    assert note.advice == ()


def test_reads_of_scalars_and_blocking_copies_are_among_the_findings_of_a_step_that_communicates():
    summary, diagnosis = judge("kinds/hta__control")
    assert kinds(diagnosis.findings) == [Kind.COLLECTIVE_WAIT, Kind.HOT_SYNC]
    together = diagnosis.findings[1]
    idle_ms = summary.joint_waits[0].idle_after_ms * summary.window.untraced_factor
    assert together.recoverable_ms == pytest.approx(4.64, abs=0.05)
    assert idle_ms == pytest.approx(8.99, abs=0.05), "what the device idles for after the first of them"


def test_bert_is_launch_bound_and_a_candidate_for_a_graph_once_its_hazards_are_gone():
    _, diagnosis = judge("field/tracelens__bert_small")
    first = diagnosis.findings[0]
    assert first.kind is Kind.LAUNCH_BOUND
    assert first.recoverable_ms == pytest.approx(2.28, abs=0.01)
    candidate = first.graph_candidate
    assert candidate.hazards == ("sync", "tensor_control_flow", "one_request")
    assert candidate.predicted_ms == pytest.approx(1.14, abs=0.01)
    assert not candidate.suitable


def test_the_loader_s_share_of_the_steps():
    _, stalled = judge("kinds/kineto__workers_0")
    assert stalled.findings[0].kind is Kind.DATA_STALL
    _, fed = judge("kinds/kineto__workers_4")
    assert Kind.DATA_STALL not in kinds(fed.findings)


def test_communication_is_named_and_not_computing():
    _, diagnosis = judge("kinds/tracelens__act_checkpoint")
    assert kinds(diagnosis.findings) == [Kind.COLLECTIVE_WAIT]


def test_the_allocator_of_the_alexnet_benchmark():
    _, diagnosis = judge("field/hta__alexnet")
    (found,) = diagnosis.findings
    assert found.kind in {Kind.ALLOC_THRASH, Kind.FIRST_CALL}
    assert "15 cudaFree and 24 cudaMalloc" in found.title


def test_without_the_operators_of_the_thread_that_launches_no_idle_time_is_put_down_to_it():
    summary, diagnosis = judge("field/derived__cpu_ops_missing_other_thread")
    assert "no_operators" in {caveat.code for caveat in diagnosis.caveats}
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert not HOST_KINDS.intersection(kinds(everything(diagnosis)))
    assert "what the host does between launches, and so why the device idles, is not known" in diagnosis.reason
    assert "profile_all_threads=True" in diagnosis.reason
    assert summary.device.kernels == 60


@pytest.mark.parametrize("name", ["derived__gpu_events_dropped_at_start", "derived__ts0_dur0_kernels"])
def test_kernels_that_were_lost_are_no_idle_time(name):
    _, diagnosis = judge(f"field/{name}")
    assert "device_records_lost" in {caveat.code for caveat in diagnosis.caveats}
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert "nothing can be said about the device" in diagnosis.reason
    assert not [finding for finding in everything(diagnosis) if "idle" in finding.title]


@pytest.mark.parametrize("name", ["hta__cpu_only", "hta__rank_non_gpu", "hta__mtia"])
def test_of_a_device_that_was_not_recorded_nothing_is_claimed(name):
    summary, diagnosis = judge(f"field/{name}")
    assert not summary.device.present
    assert not DEVICE_KINDS.intersection(kinds(everything(diagnosis)))
    assert not [finding for finding in everything(diagnosis) if "device" in finding.title]


def test_of_a_host_that_was_not_recorded_nothing_is_claimed(tmp_path, device_alone):
    summary = summarise(device_alone(tmp_path))
    diagnosis = diagnose(Evidence(summary=summary))
    assert summary.device.present
    assert "host_lane_missing" in {caveat.code for caveat in diagnosis.caveats}
    assert not HOST_KINDS.intersection(kinds(everything(diagnosis)))
    assert diagnosis.reason.startswith("Only the device was recorded")


def test_a_decode_step_in_one_graph_is_device_bound_and_the_host_is_left_alone():
    """What lies before the graph's launch is the edge of the recording: busy 10.718 of 10.743 ms."""
    _, diagnosis = judge("field/tracelens__vllm_decode")
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.CLEAN, ())
    assert diagnosis.reason.startswith("Device-bound: the device works for 100 % of the time from its first")
    assert all(note.advice == () for note in diagnosis.notes)
