"""As test_field_answers, on the large traces beside the checkout. They are not kept here: a megabyte each and more."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest
from midwatch.model.finding import Kind
from midwatch.trace import summarise
from midwatch.trace.intervals import Cover
from midwatch.trace.links import link
from midwatch.trace.load import load
from midwatch_server.diagnosis import Evidence, diagnose

FOLDER = Path(__file__).parents[4] / "shared" / "field" / "traces"


def path(start):
    (found,) = FOLDER.glob(f"{start}*")
    return found


def judge(start):
    summary = summarise(path(start))
    return summary, diagnose(Evidence(summary=summary))


def idle_after_the_first_read_ms(trace):
    """Of each step, from its first blocking copy to the host to its end, by the raw events: the median."""
    links, device = link(trace), trace.device
    names = np.array(["DtoH" in name for name in trace.names], np.bool_)
    calls = links.launcher[np.flatnonzero(names[device.name] & (links.launcher >= 0))]
    read = np.sort(trace.runtime.end[calls])
    busy = Cover.union(device.start, device.end)
    marks = trace.annotations
    idle = []
    for row, number in enumerate(marks.name.tolist()):
        if trace.names[number].startswith("ProfilerStep#"):
            start, end = int(marks.start[row]), int(marks.end[row])
            first = int(read[np.searchsorted(read, start)])
            idle.append((end - first - busy.inside(first, end)) / 1e6)
    return statistics.median(idle)


def test_timesformer_is_bound_by_its_softmax():
    _, diagnosis = judge("tracelens__h100_facebook_timesformer")
    assert [finding.kind for finding in diagnosis.findings] == [Kind.KERNEL_BOUND]
    assert diagnosis.findings[0].title.startswith("Softmax kernels of an attention that is not fused take 68.8 ms")
    assert "prepares the input for 215 ms" in diagnosis.notes[0].title


def test_the_pipeline_around_a_diffusion_model_launches_too_slowly():
    """Two fifths of the kernels are tiny, those before the denoising; the device is busy for 61 % of the window."""
    _, diagnosis = judge("tracelens__inference_xdit_sd_3.5")
    (found,) = diagnosis.findings
    assert (found.kind, found.site.function) == (Kind.LAUNCH_BOUND, "__call__")
    assert found.title.startswith("8,042 launches, 40 % of them of tiny kernels, in the step")
    assert found.share_of_request == pytest.approx(0.38, abs=0.01)
    assert found.recoverable_ms == pytest.approx(312, rel=0.02)


def test_what_the_reads_of_scalars_would_gain_is_borne_out_by_the_gaps_after_them():
    summary, diagnosis = judge("hta__trace_diff_control")
    found = next(finding for finding in diagnosis.findings if finding.kind is Kind.HOT_SYNC)
    assert found.requests_affected == 6
    idle_ms = idle_after_the_first_read_ms(load(path("hta__trace_diff_control")))
    gain_ms = found.recoverable_ms / summary.window.untraced_factor
    assert idle_ms / 4 < gain_ms < idle_ms
    assert gain_ms == pytest.approx(5.6, abs=0.1)


def test_a_loader_without_workers_has_its_share_and_one_with_four_is_no_finding():
    _, stalled = judge("kineto__tb_plugin_samples_resnet50_num_workers_0")
    assert stalled.findings[0].kind is Kind.DATA_STALL
    assert stalled.findings[0].share_of_request == pytest.approx(0.396, abs=1e-3)
    _, fed = judge("kineto__tb_plugin_samples_resnet50_num_workers_4")
    assert fed.findings == ()


def test_communication_is_named_and_not_computing():
    _, diagnosis = judge("tracelens__mi300_resnet_act_checkpoint")
    assert [finding.kind for finding in diagnosis.findings] == [Kind.COLLECTIVE_WAIT]
