"""Hand-made evidence: a service of ten requests of 10 ms on an H200, and a spike of 500 ms."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from midwatch.model.requests import RequestRecord
from midwatch.model.samples import StackSample
from midwatch.model.site import Frame, Site
from midwatch.model.spike import Baseline, Spike
from midwatch.model.trace import DeviceFacts, LaunchFacts, RequestFacts, TraceSummary, Window

if not (Path(__file__).parents[4] / "shared" / "field" / "traces").is_dir():
    collect_ignore = ["test_field_answers_large.py"]  # traces of others that are too large to be kept here

MS = 1_000_000
START = 1_700_000_000_000_000_000

RANK = Site("app/ranker.py", 41, "rank", "app.ranker", exact=True, how="sample", callee="item")


def make_window(
    *, wall_ms=10.0, busy_ms=4.0, host_ms=8.0, requests=10, lanes=("host_ops", "runtime", "device"), **more
):
    """A summary of ``requests`` equal requests; ``more`` replaces fields of it."""
    facts = tuple(
        RequestFacts(
            "/rank", i * (wall_ms + 1), wall_ms, host_busy_ms=host_ms, device_busy_ms=busy_ms, launches=40, kernels=40
        )
        for i in range(requests)
    )
    device = DeviceFacts(
        present=True,
        names=("NVIDIA H200",),
        busy_ms=busy_ms * requests,
        idle_ms=(wall_ms - busy_ms) * requests,
        launches=40 * requests,
        kernels=40 * requests,
        small_kernels=4 * requests,
        median_kernel_us=90.0,
    )
    summary = TraceSummary(
        file="trace.json.gz",
        events=1000,
        window=Window(0, requests * (wall_ms + 1), "annotation", requests, 0, lanes),
        device=device,
        requests=facts,
        request_p50_ms=wall_ms,
        launch=LaunchFacts(per_request=40.0),
    )
    return replace(summary, **more)


def frame(function, line=10, callee="", module="app.ranker"):
    return Frame(f"{module.replace('.', '/')}.py", line, function, module, callee)


def sample(at_ms, *frames, weight_ms=10, late_ms=0, role="request", thread=1, name="", ran_ms=0):
    at, weight, late = START + at_ms * MS, weight_ms * MS, late_ms * MS
    return StackSample(at, thread, thread, name, role, tuple(frames), weight, late, 7, ran_ms * MS)


def samples(start_ms, end_ms, *frames, step_ms=10, **more):
    """One sample every ``step_ms``; each weighs the time since the one before."""
    return tuple(
        sample(at, *frames, weight_ms=step_ms, **more) for at in range(start_ms + step_ms, end_ms + step_ms, step_ms)
    )


def make_spike(duration_ms=500, *, is_async=False, usual_ms=20.0, **more):
    request = RequestRecord(7, "/rank", START, duration_ms * MS, thread_id=1, is_async=is_async)
    baseline = Baseline(1000, usual_ms, usual_ms * 1.5, usual_ms * 2) if usual_ms else Baseline()
    return Spike("s1", request, 100.0, "sketch", baseline, **more)


@pytest.fixture
def make():
    """The makers above, since a test module cannot import its conftest."""
    return SimpleNamespace(
        MS=MS, START=START, RANK=RANK, window=make_window, spike=make_spike, frame=frame, sample=sample, samples=samples
    )


@pytest.fixture
def device_alone():
    """Writes a trace of a device alone: forty kernels of 5 us with 95 us between them."""

    def write(folder):
        kernels = [
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at * 100, "dur": 5,
             "args": {"stream": 7, "device": 0, "correlation": at}}
            for at in range(40)
        ]  # fmt: skip
        path = folder / "device.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": kernels}))
        return path

    return write
