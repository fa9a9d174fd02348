"""A real window of torch on the CPU, with real samples: reader, clocks and joins against what Kineto writes here."""

from __future__ import annotations

import json
import sys
import threading
import time

import pytest
import torch
from midwatch.model.plain import to_plain
from midwatch.model.site import Frame
from midwatch.trace import summarise
from torch.profiler import ProfilerActivity, profile

REQUESTS = 4


def rules():
    """Python between two stages."""
    total = 0
    for number in range(1_500_000):
        total += number % 7
    return total


RULES_LINES = range(rules.__code__.co_firstlineno, rules.__code__.co_firstlineno + 6)


def serve(weights):
    hidden = torch.relu(weights @ weights)
    rules()
    return (hidden @ weights).sum()


class Sampler(threading.Thread):
    """Looks at one thread every two milliseconds, as the agent does beside a window."""

    def __init__(self, ident):
        super().__init__(daemon=True)
        self.ident_of = ident
        self.rows = []
        self.done = threading.Event()

    def run(self):
        before = time.time_ns()
        while not self.done.wait(0.002):
            now = time.time_ns()
            frame = sys._current_frames().get(self.ident_of)
            stack = []
            while frame is not None:
                name = frame.f_globals.get("__name__", "")
                stack.append(Frame(name.replace(".", "/") + ".py", frame.f_lineno, frame.f_code.co_name, name))
                frame = frame.f_back
            self.rows.append((now, now - before, tuple(stack)))
            before = now


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    """The file, and when each request ran (Unix nanoseconds)."""
    torch.set_num_threads(1)
    weights = torch.rand(192, 192)
    serve(weights)
    times = []
    sampler = Sampler(threading.get_ident())
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        sampler.start()
        for _ in range(REQUESTS):
            start = time.time_ns()
            serve(weights)
            times.append((start, time.time_ns()))
            time.sleep(0.002)
        sampler.done.set()
    sampler.join()
    path = tmp_path_factory.mktemp("window") / "t.json"
    prof.export_chrome_trace(str(path))
    return path, times, sampler.rows


@pytest.fixture(scope="module")
def summary(window, make_agent, tmp_path_factory):
    path, times, rows = window
    origin = times[0][0] - 1_000_000
    native, ident = threading.get_native_id(), threading.get_ident()

    def micros(unix_ns):
        return (unix_ns - origin) / 1000

    agent = make_agent((0.0, micros(times[-1][1]) + 1000), base_ns=origin)
    for start, end in times:
        agent.request(micros(start), micros(end), native, thread_ident=ident)
    for at, weight, frames in rows:
        agent.sample(micros(at), weight / 1000, frames, native)
    merged = tmp_path_factory.mktemp("merged") / "t.json"
    merged.write_text(json.dumps({"midwatch": to_plain(agent.tracks()), **json.loads(path.read_text())}))
    return summarise(merged)


def test_without_tracks_the_window_is_one_request_on_its_own_clock(window):
    path, times, _ = window
    bare = summarise(path)
    assert bare.window.basis == "window"
    assert "host_ops" in bare.window.lanes
    assert not bare.device.present
    assert abs(bare.window.start_unix_ns - times[0][0]) < 2_000_000_000
    assert {"aten::mm", "aten::sum", "aten::relu"} <= {op.name for op in bare.ops}
    mm = next(op for op in bare.ops if op.name == "aten::mm")
    assert (mm.count, mm.shapes) == (2 * REQUESTS, ("f32[192,192] x f32[192,192]",))


def test_requests_and_operators_fall_together(summary, window):
    """The clocks of ledger and trace agree, or the operators would lie outside of the requests."""
    _, times, _ = window
    assert (summary.window.basis, summary.window.requests) == ("ledger", REQUESTS)
    for request, (start, end) in zip(summary.requests, times, strict=True):
        assert request.wall_ms == pytest.approx((end - start) / 1e6)
        assert request.op_ms > 0
    assert sum(r.op_ms for r in summary.requests) > 0.6 * sum(op.self_ms for op in summary.ops)


def test_the_python_between_the_stages_has_its_line(summary):
    (gap,) = [gap for gap in summary.gaps if gap.site is not None and gap.site.function == "rules"]
    assert (gap.host, gap.site.exact, gap.site.how) == ("python", True, "sample")
    assert gap.site.line in RULES_LINES
    assert gap.device is False
    assert gap.requests_affected == gap.count >= REQUESTS - 1  # a starved sampler may miss one
    assert gap.recoverable_ms == pytest.approx(gap.per_request_ms, rel=0.1)
    assert gap.per_request_ms > 0.5 * summary.request_p50_ms


def test_the_timeline_has_a_host_and_no_device(summary):
    assert "host" in [lane.kind for lane in summary.timeline.lanes]
    assert "device" not in [lane.kind for lane in summary.timeline.lanes]
