"""With the agent's tracks in the file: requests from the ledger, exact lines from samples, units on other threads."""

from __future__ import annotations

import json

import pytest
from midwatch.model.site import Frame
from midwatch.model.spike import Baseline
from midwatch.model.workload import Workload
from midwatch.trace import summarise
from midwatch.trace.threads import aliases

LOOP, BATCHER = 100, 200
METRIC = Frame("app/metrics.py", 41, "record", "app.metrics", "item")
HANDLER = Frame("app/serve.py", 20, "rank", "app.serve", "record")
TORCH = Frame("torch/_tensor.py", 9, "item", "torch._tensor", "item")
SELECT = Frame("selectors.py", 468, "EpollSelector.select", "selectors", "poll")
RUN_ONCE = Frame("asyncio/base_events.py", 1884, "BaseEventLoop._run_once", "asyncio.base_events", "_run")
MAIN_LINE = Frame("serve.py", 77, "<module>", "__main__", "run")
RULES = Frame("app/rules.py", 14, "penalties", "app.rules")
TAKE = Frame("app/batcher.py", 58, "_collect", "app.batcher", "get")
WRITE = Frame("app/audit.py", 32, "flush", "app.audit", "write")
LINEAR = Frame("torch/nn/modules/linear.py", 134, "Linear.forward", "torch.nn.modules.linear", "linear")
TOWER = Frame("app/model.py", 31, "forward", "app.model", "item")


def test_a_wait_gets_the_line_that_a_sample_saw(machine, make_agent, tmp_path):
    """Light windows record no operators: samples alone know the line, and one of them is enough for all alike."""
    agent = make_agent((0.0, 10_000.0))
    for number in range(4):
        start = machine.clock
        machine.kernel(800)
        machine.read()
        for _ in range(20):
            machine.think(10)
            machine.kernel(20)
        machine.read(4096)
        agent.request(start, machine.clock)
        if number == 1:
            agent.sample(start + 400, 400, (TORCH, METRIC, HANDLER))
        agent.sample(machine.clock - 100, 100, (HANDLER,))
        machine.think(50)
    summary = summarise(machine.lanes.write(tmp_path, agent.tracks()))
    assert summary.window.basis == "ledger"
    assert summary.window.lanes == ("runtime", "device", "ledger", "samples")
    (item,) = [w for w in summary.waits if w.cause == "item"]
    assert (item.count, item.requests_affected) == (4, 4)
    site = item.site
    assert (site.file, site.line, site.function, site.exact, site.how) == (
        "app/metrics.py",
        41,
        "record",
        True,
        "sample",
    )
    assert site.callee == "item"


def test_a_sample_taken_after_the_wait_is_no_witness_of_it(machine, make_agent, tmp_path):
    agent = make_agent((0.0, 10_000.0))
    for _ in range(4):
        start = machine.clock
        machine.kernel(800)
        machine.read()
        machine.kernel(20)
        agent.sample(machine.clock + 30, machine.clock + 30 - start, (RULES, HANDLER))
        machine.think(60)
        machine.read(4096)
        agent.request(start, machine.clock)
    summary = summarise(machine.lanes.write(tmp_path, agent.tracks()))
    assert [w.site for w in summary.waits] == [None, None]


def test_of_two_waits_that_look_alike_each_has_the_line_at_its_place(machine, make_agent, tmp_path):
    """A loss and a norm are read back one after the other, between equal kernels."""
    norm = Frame("app/metrics.py", 55, "norm", "app.metrics", "item")
    agent = make_agent((0.0, 50_000.0))
    for number in range(6):
        start = machine.clock
        for at, frame in ((0, METRIC), (3, norm)):
            machine.kernel(800)
            if number == at:
                agent.sample(machine.clock + 400, 400, (frame, HANDLER))
            machine.read()
        machine.kernel(800)
        machine.read(4096)
        agent.request(start, machine.clock)
    waits = [w for w in summarise(machine.lanes.write(tmp_path, agent.tracks())).waits if w.cause == "item"]
    assert sorted((w.site.line, w.count) for w in waits) == [(41, 6), (55, 6)]


@pytest.mark.parametrize(("requests", "host", "function"), [(6, "python", "rank"), (2, "unknown", None)])
def test_a_gap_seen_only_at_its_end_names_what_was_around_it_and_no_line(
    machine, make_agent, tmp_path, requests, host, function
):
    """The sampler was due early in the gap and came when the next call let go of the interpreter.

    What two of them have in common may be chance.
    """
    ends = (
        Frame("app/serve.py", 23, "rank", "app.serve", "to"),
        Frame("app/model.py", 9, "forward", "app.model", "mm"),
    )
    agent = make_agent((0.0, 60_000.0))
    for number in range(requests):
        start = machine.clock
        machine.kernel(3, "before")
        machine.think(3000)
        end = ends[number % 2]
        agent.sample(machine.clock + 20, 3500, (end, HANDLER) if end.function != "rank" else (end,), late=2500)
        machine.kernel(3, "after")
        machine.think(300)
        machine.read(4096)
        agent.request(start, machine.clock)
        machine.think(400)
    gap = max(summarise(machine.lanes.write(tmp_path, agent.tracks())).gaps, key=lambda gap: gap.total_ms)
    assert (gap.host, gap.requests_affected, gap.site and gap.site.function) == (host, requests, function)
    assert gap.site is None or not gap.site.exact


def test_routes_are_not_mixed_in_one_median(machine, make_agent, tmp_path):
    """Many short requests beside a few long ones: figures are of those that most time goes to."""
    agent = make_agent((0.0, 100_000.0), baseline=Baseline(requests=500, p50_ms=0.05))
    for number in range(40):
        start = machine.clock
        machine.kernel(2000 if number % 5 == 0 else 20)
        machine.read(4096)
        agent.request(start, machine.clock, route="POST /rank" if number % 5 == 0 else "GET /items")
        machine.think(30)
    agent.route = "GET /items"
    summary = summarise(machine.lanes.write(tmp_path, agent.tracks()))
    assert summary.request_p50_ms == pytest.approx(2.0, abs=0.1)
    assert summary.window.untraced_factor > 0.9
    assert "untraced_factor" not in [c.code for c in summary.window.caveats]


def test_the_innermost_line_of_the_service_s_own_and_never_a_library_s(machine, make_agent, tmp_path):
    agent = make_agent((0.0, 5_000.0))
    machine.kernel(800)
    machine.synchronize()
    machine.kernel(10)
    machine.read()
    agent.request(0, machine.clock)
    agent.sample(400, 400, (TORCH, Frame("threading.py", 5, "wait", "threading"), HANDLER, MAIN_LINE))
    summary = summarise(machine.lanes.write(tmp_path, agent.tracks()))
    (wait,) = [w for w in summary.waits if w.cause == "device_sync"]
    assert (wait.site.file, wait.site.line) == ("app/serve.py", 20)


def test_a_sample_that_came_late_stands_for_the_call_that_held_the_interpreter(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 30_000.0))
    lanes.op("aten::mm", 0, 100)
    lanes.op("aten::mm", 20_000, 20_100)
    agent.request(0, 20_200)
    agent.sample(50, 50, (LINEAR, TOWER))
    agent.sample(19_950, 19_900, (RULES, HANDLER))
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    (gap,) = summary.gaps
    assert (gap.host, gap.device, gap.site.line, gap.site.exact) == ("python", False, 14, True)
    assert gap.per_request_ms == pytest.approx(19.85, abs=0.1)


def test_the_batcher_s_thread_explains_a_request_that_only_awaits(lanes, make_agent, tmp_path):
    """Two stages on a batcher thread with rules in between; the event loop sits in select meanwhile."""
    agent = make_agent((0.0, 200_000.0))
    for start in (0, 60_000, 120_000):
        lanes.op("aten::linear", start + 1000, start + 6000, BATCHER)
        lanes.op("aten::linear", start + 36_000, start + 40_000, BATCHER)
        agent.unit(start + 990, start + 6010, BATCHER, requests=2)
        agent.unit(start + 35_990, start + 40_010, BATCHER, requests=2)
        agent.request(start, start + 41_000, LOOP, is_async=True)
        agent.request(start + 200, start + 41_100, LOOP, is_async=True)
        for at in range(2000, 41_000, 2000):
            inside = 6010 < at < 35_990
            agent.sample(start + at, 2000, (RULES, HANDLER) if inside else (LINEAR, TOWER), BATCHER)
            agent.sample(start + at, 2000, (SELECT, RUN_ONCE, MAIN_LINE), LOOP)
        agent.sample(start + 59_000, 18_000, (TAKE,), BATCHER)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert (summary.window.basis, summary.window.requests) == ("ledger", 6)
    (gap,) = [g for g in summary.gaps if g.host == "python"]
    assert (gap.site.file, gap.site.line, gap.site.exact) == ("app/rules.py", 14, True)
    assert gap.thread_id == BATCHER
    assert (gap.count, gap.requests_affected) == (3, 6)
    assert gap.per_request_ms == pytest.approx(29, abs=2.1)
    assert gap.recoverable_ms == pytest.approx(gap.per_request_ms, rel=0.05)
    assert all(r.shared == 2 for r in summary.requests)


def test_a_blocking_call_in_the_event_loop_is_the_handler_s_line(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 200_000.0))
    lanes.op("aten::linear", 1000, 6000, BATCHER)
    agent.request(10_000, 110_000, LOOP, is_async=True)
    for at in range(15_000, 110_001, 5000):
        agent.sample(at, 5000, (WRITE, HANDLER, RUN_ONCE, MAIN_LINE), LOOP)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    (gap,) = summary.gaps
    assert (gap.host, gap.callee, gap.site.line) == ("blocked", "write", 32)
    assert gap.per_request_ms == pytest.approx(100, abs=5.1)


def test_the_loop_itself_has_no_line(lanes, make_agent, tmp_path):
    """uvicorn writing to its socket is nobody's line, least of all the one that started the loop."""
    send = Frame("asyncio/selector_events.py", 9, "_SelectorSocketTransport.write", "asyncio.selector_events", "send")
    agent = make_agent((0.0, 200_000.0))
    lanes.op("aten::linear", 1000, 6000, BATCHER)
    agent.request(10_000, 60_000, LOOP, is_async=True)
    agent.sample(59_000, 49_000, (send, RUN_ONCE, MAIN_LINE), LOOP)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert [g.site for g in summary.gaps] == [None]


def test_a_collection_holds_every_thread_and_is_told_from_python(lanes, make_agent, tmp_path):
    collect = Frame("app/catalog.py", 28, "trim", "app.catalog", "collect")
    agent = make_agent((0.0, 200_000.0))
    lanes.op("aten::linear", 0, 1000)
    agent.request(0, 50_000)
    agent.request(20_000, 60_000, BATCHER)
    agent.pause(10_000, 40_000, (collect, HANDLER))
    agent.sample(45_000, 44_000, (collect, HANDLER))
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    (pause,) = summary.gc
    assert (pause.generation, pause.collected, pause.explicit, pause.requests_affected) == (2, 7, True, 2)
    assert (pause.site.line, pause.site.how) == (28, "gc_callback")
    assert pause.per_request_ms == pytest.approx(25.0)
    assert "gc" in [gap.host for gap in summary.gaps]


def test_automatic_collections_are_one_group_with_the_longest_first(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 200_000.0))
    lanes.op("aten::linear", 0, 1000)
    agent.request(0, 150_000)
    for start, length, line in ((10_000, 2000, 1), (30_000, 9000, 2), (50_000, 4000, 3), (70_000, 8000, 1)):
        agent.pause(start, start + length, (Frame("app/a.py", line, "f", "app.a"),), explicit=False)
    (pause,) = summarise(lanes.write(tmp_path, agent.tracks())).gc
    assert (pause.count, pause.site, pause.requests_affected) == (4, None, 1)
    assert pause.starts_ms == (30.0, 70.0, 50.0, 10.0)
    assert pause.per_request_ms == pytest.approx(23.0)


def test_a_lock_names_both_ends(lanes, make_agent, tmp_path):
    waiter = Frame("app/meter.py", 22, "count", "app.meter", "__enter__")
    holder = Frame("app/meter.py", 35, "send", "app.meter", "sleep")
    agent = make_agent((0.0, 200_000.0))
    lanes.op("aten::linear", 0, 1000)
    agent.request(0, 100_000)
    agent.lock(5000, 95_000, waiter, holder)
    agent.sample(99_000, 98_000, (waiter, HANDLER))
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    (lock,) = summary.locks
    assert (lock.lock, lock.waiter.line, lock.holder.line, lock.holder_thread) == ("Lock RANKS", 22, 35, "reporter")
    assert lock.per_request_ms == pytest.approx(90.0)
    assert summary.gaps[0].host == "lock"


def test_cut_requests_are_counted_and_not_judged(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 20_000.0))
    lanes.op("aten::linear", 0, 1000)
    agent.request(-500, 4000)
    agent.request(5000, 9000)
    agent.request(15_000, 25_000)
    agent.request(12_000, 14_000, status="running")
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert (summary.window.requests, summary.window.requests_cut) == (1, 3)
    assert [r.wall_ms for r in summary.requests] == [4.0]


def test_the_ledger_s_median_is_the_untraced_latency(machine, make_agent, tmp_path):
    agent = make_agent((0.0, 100_000.0), baseline=Baseline(requests=500, p50_ms=1.2))
    for _ in range(5):
        start = machine.clock
        for _ in range(100):
            machine.think(12)
            machine.lanes.op("aten::mul", machine.clock - 1, machine.clock)
            machine.kernel(2)
        machine.read(4096)
        agent.request(start, machine.clock)
        machine.think(10)
    summary = summarise(machine.lanes.write(tmp_path, agent.tracks()))
    assert summary.window.untraced_factor == pytest.approx(1.2 / summary.request_p50_ms, rel=1e-3)
    gained = summary.launch.recoverable_ms * summary.window.untraced_factor
    assert 0.6 < gained < 1.2


def test_a_window_that_caught_slow_requests_is_not_the_profiler_s_doing(lanes, make_agent, tmp_path):
    """A spike opened the window: 50 ms instead of 1 ms, and next to no events whose recording could explain it."""
    agent = make_agent((0.0, 300_000.0), baseline=Baseline(requests=500, p50_ms=1.0))
    for start in range(0, 240_000, 60_000):
        lanes.op("aten::mm", start, start + 500)
        agent.request(start, start + 50_000)
        agent.sample(start + 49_900, 49_300, (RULES, HANDLER))
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert summary.window.untraced_factor > 0.99
    (caveat,) = [c for c in summary.window.caveats if "untraced" in c.code or c.code == "slow_window"]
    assert caveat.code == "slow_window"
    assert "took longer (50.00 ms) than those before it (1.00 ms)" in caveat.text
    assert summary.gaps[0].recoverable_ms == pytest.approx(49.3, abs=0.2)


def test_units_stand_in_where_nothing_marks_requests(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 100_000.0))
    for start in (1000, 21_000):
        lanes.op("aten::linear", start, start + 4000, BATCHER)
        agent.unit(start, start + 5000, BATCHER)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert (summary.window.basis, summary.window.requests) == ("ledger", 2)
    assert {r.route for r in summary.requests} == {"Model"}


def test_a_thread_is_known_by_any_of_its_numbers(lanes, make_agent, tmp_path):
    ident = 0x7F12_F234_5678
    assert aliases(4711, ident) == (4711, ident, 0xF234_5678, (1 << 32) - 0xF234_5678, 0x7234_5678)
    agent = make_agent((0.0, 100_000.0))
    lanes.launch(100, 5, 110, 910, tid=(1 << 32) - 0xF234_5678)
    lanes.call("cudaDeviceSynchronize", 110, 912, (1 << 32) - 0xF234_5678)
    agent.request(0, 1000, 4711, thread_ident=ident)
    agent.sample(500, 500, (METRIC, HANDLER), 4711)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert summary.requests[0].launches == 1
    assert (summary.waits[0].thread_id, summary.waits[0].site.line) == (4711, 41)


def test_tracks_of_another_make_are_a_caveat(lanes, tmp_path):
    lanes.op("aten::linear", 0, 1000)
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"midwatch": {"requests": 7}, "traceEvents": lanes.events}))
    summary = summarise(path)
    assert "tracks_unreadable" in [c.code for c in summary.window.caveats]
    assert summary.window.basis == "window"


def test_lines_of_one_function_are_one_gap_at_the_line_seen_most(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 50_000.0))
    lanes.op("aten::mm", 0, 1000)
    lanes.op("aten::mm", 41_000, 42_000)
    agent.request(0, 42_000)
    for at in range(2000, 41_000, 1000):
        line = 15 if at % 4000 else 16
        agent.sample(at, 1000, (Frame("app/rules.py", line, "penalties", "app.rules"), HANDLER))
    (gap,) = summarise(lanes.write(tmp_path, agent.tracks())).gaps
    assert (gap.count, gap.site.line) == (1, 15)
    assert gap.total_ms == pytest.approx(39, abs=1.1)


def test_what_no_sample_hit_takes_the_reason_of_its_likes(machine, make_agent, tmp_path):
    """Half a millisecond of Python in every request: a sample a millisecond sees some of them only."""
    agent = make_agent((0.0, 50_000.0))
    for number in range(6):
        start = machine.clock
        for _ in range(5):
            machine.kernel(3, "before")
        if number in {1, 4}:
            agent.sample(machine.clock + 300, 1000, (RULES, HANDLER))
        machine.think(500)
        for _ in range(5):
            machine.kernel(3, "after")
        machine.read(4096)
        agent.request(start, machine.clock)
        agent.sample(machine.clock + 10, 500, (HANDLER,))
        machine.think(20)
    (gap,) = summarise(machine.lanes.write(tmp_path, agent.tracks())).gaps
    assert (gap.host, gap.site.line, gap.count, gap.requests_affected) == ("python", 14, 6, 6)


def test_the_handler_before_its_batch_is_asked_when_the_batcher_rests(lanes, make_agent, tmp_path):
    """A write in the event loop, before the query is handed to the batcher: the batcher's thread had nothing to do."""
    agent = make_agent((0.0, 200_000.0))
    lanes.op("aten::linear", 101_000, 105_000, BATCHER)
    agent.unit(101_000, 105_000, BATCHER)
    agent.request(0, 106_000, LOOP, is_async=True)
    for at in range(10_000, 100_001, 10_000):
        agent.sample(at, 10_000, (WRITE, HANDLER, RUN_ONCE, MAIN_LINE), LOOP)
        agent.sample(at, 10_000, (TAKE,), BATCHER)
    gaps = summarise(lanes.write(tmp_path, agent.tracks())).gaps
    assert [(g.host, g.site.line, g.thread_id) for g in gaps] == [("blocked", 32, LOOP)]
    assert gaps[0].per_request_ms == pytest.approx(100, abs=1.5)


def test_what_hands_over_one_batch_is_no_sync_because_the_next_one_follows(machine, make_agent, tmp_path):
    """A batcher under load: the copy of one batch's results is followed by the launches of the next at once."""
    agent = make_agent((0.0, 50_000.0))
    starts = [0.0]
    for _ in range(5):
        begin = machine.clock
        machine.kernel(300)
        machine.read()
        machine.kernel(300)
        machine.read(4096)
        agent.unit(begin, machine.clock - 1, LOOP)
        agent.request(starts[-1], machine.clock + 50, 7, is_async=True)
        starts.append(begin + 100)
        machine.think(5)
    summary = summarise(machine.lanes.write(tmp_path, agent.tracks()))
    waits = {w.cause: w for w in summary.waits}
    assert waits["item"].followed_by_work == waits["item"].count
    assert waits["d2h"].handover == waits["d2h"].count


def test_requests_of_two_threads_are_kept_apart(lanes, make_agent, tmp_path):
    """Two threads share a stream; what one of them waits for is not the other's wait."""
    agent = make_agent((0.0, 10_000.0))
    lanes.launch(0, 5, 6, 506, tid=1)
    lanes.call("cudaDeviceSynchronize", 10, 508, tid=1)
    lanes.launch(520, 5, 526, 536, tid=1)
    lanes.launch(300, 5, 507, 517, tid=2)
    agent.request(0, 600, 1)
    agent.request(290, 600, 2)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert [(r.thread_id, r.syncs, r.launches) for r in summary.requests] == [(1, 1, 2), (2, 0, 1)]
    assert summary.waits[0].requests_affected == 1


def test_a_request_without_device_work_is_explained_beside_those_that_have_some(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 200_000.0))
    lanes.launch(1000, 5, 1010, 2000, tid=BATCHER)
    lanes.call("cudaDeviceSynchronize", 1010, 2002, tid=BATCHER)
    agent.request(990, 2100, BATCHER)
    agent.request(10_000, 110_000, LOOP, is_async=True)
    for at in range(15_000, 110_001, 5000):
        agent.sample(at, 5000, (WRITE, HANDLER, RUN_ONCE, MAIN_LINE), LOOP)
    (gap,) = summarise(lanes.write(tmp_path, agent.tracks())).gaps
    assert (gap.host, gap.site.line, gap.device) == ("blocked", 32, False)


def test_moments_are_counted_from_the_start_of_the_window(lanes, make_agent, tmp_path):
    """The first event of a trace comes long after the window was opened."""
    agent = make_agent((0.0, 300_000.0))
    for start in (100_000, 150_000, 200_000):
        agent.request(start, start + 20_000)
        agent.pause(start + 12_000, start + 15_000)
        agent.lock(start - 300, start + 2000, HANDLER, RULES)
        agent.sample(start + 5000, 2000, (RULES,))
        lanes.op("aten::mm", start + 10_000, start + 11_000)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert [request.start_ms for request in summary.requests] == [100.0, 150.0, 200.0]
    assert summary.window.duration_ms == 300.0
    assert sorted(summary.gc[0].starts_ms) == [112.0, 162.0, 212.0]
    assert sorted(summary.locks[0].starts_ms) == [100.0, 150.0, 200.0]  # not before the request that waits
    assert {round(start) for gap in summary.gaps for start in gap.starts_ms} <= set(range(100, 221))
    assert summary.timeline.start_ms in (100.0, 150.0, 200.0)


@pytest.mark.parametrize("of_units", [True, False])
def test_the_inputs_come_from_the_units_where_the_window_has_none(lanes, make_agent, tmp_path, of_units):
    small, large = Workload(("float32[1,64]@cpu",), 1), Workload(("float32[8,64]@cpu",), 8)
    agent = make_agent((0.0, 50_000.0))
    for number in range(3):
        start = number * 10_000
        more = {} if of_units else {"workload": large if number else small}
        agent.request(start, start + 8000, **more)
        if of_units:
            agent.unit(start + 100, start + 7000, BATCHER, workload=large if number else small)
        lanes.op("aten::mm", start + 200, start + 6000, BATCHER)
    assert summarise(lanes.write(tmp_path, agent.tracks())).workload == large


def test_without_tracks_no_inputs_are_known(lanes, tmp_path):
    lanes.op("aten::mm", 0, 100)
    assert summarise(lanes.write(tmp_path)).workload == Workload()


def test_what_nobody_saw_is_not_explained_by_one_far_longer(lanes, make_agent, tmp_path):
    """One request was blocked after its last operator; what others did there for a moment is not known by that."""
    audit = Frame("app/audit.py", 32, "flush", "app.audit", "write")
    agent = make_agent((0.0, 300_000.0))
    for number in range(6):
        start, tail = number * 10_000, 90_000 if number == 5 else 800
        lanes.op("aten::mm", start, start + 5000)
        agent.request(start, start + 5000 + tail)
        if number == 5:
            for at in range(5500, 5000 + tail, 1000):
                agent.sample(start + at, 1000, (audit,))
    gaps = summarise(lanes.write(tmp_path, agent.tracks())).gaps
    (blocked,) = [gap for gap in gaps if gap.host == "blocked"]
    assert (blocked.requests_affected, blocked.count) == (1, 1)
    assert [(gap.host, gap.requests_affected) for gap in gaps if gap.host != "blocked"] == [("unknown", 5)]


def test_what_one_request_has_of_a_line_is_not_levelled_down_by_the_little_that_others_have(
    lanes, make_agent, tmp_path
):
    agent = make_agent((0.0, 400_000.0))
    for start, length in ((0, 106_000), (200_000, 5_300), (300_000, 5_300)):
        lanes.op("aten::mm", start, start + 500)
        agent.request(start, start + length)
        agent.sample(start + length - 100, length - 700, (RULES, HANDLER))
    gap = summarise(lanes.write(tmp_path, agent.tracks())).gaps[0]
    assert gap.requests_affected == 1
    assert gap.per_request_ms == pytest.approx(105.5, abs=0.3)
    assert gap.recoverable_ms == pytest.approx(105.4, abs=0.5)
    assert gap.total_ms == pytest.approx(115.1, abs=0.5)
