"""Without a device: where the time of requests went, what is exact and what samples only estimate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from midwatch.model.site import Frame
from midwatch.model.trace import Caveat
from midwatch.trace import summarise, timefacts
from midwatch.trace.timefacts import FEWEST

LOOP, BATCHER = 100, 200
REST = Frame("app/serve.py", 30, "rank", "app.serve", "sleep")
WRITE = Frame("app/audit.py", 32, "flush", "app.audit", "write")
RULES = Frame("app/rules.py", 14, "penalties", "app.rules")
TAKE = Frame("app/batcher.py", 62, "_collect", "app.batcher", "get")
WAKE = Frame("asyncio/base_events.py", 812, "BaseEventLoop._write_to_self", "asyncio.base_events", "send")
HAND_OVER = Frame("app/batcher.py", 55, "_run", "app.batcher", "call_soon_threadsafe")
LINEAR = Frame("torch/nn/modules/linear.py", 134, "Linear.forward", "torch.nn.modules.linear", "linear")
TOWER = Frame("app/model.py", 31, "forward", "app.model", "item")
SELECT = Frame("selectors.py", 468, "EpollSelector.select", "selectors", "poll")
RUN_ONCE = Frame("asyncio/base_events.py", 1884, "BaseEventLoop._run_once", "asyncio.base_events", "select")


def shares(summary):
    return {(facts.what, facts.site and facts.site.line): round(facts.share, 3) for facts in summary.time}


def serve(lanes, agent, *, requests=5, length=10_000, route="GET /"):
    """Requests of 10 ms on one thread, an operator in the first two of each; return their starts."""
    starts = [number * (length + 2000) for number in range(requests)]
    for start in starts:
        agent.request(start, start + length, route=route)
        lanes.op("aten::mm", start, start + 2000)
    return starts


def test_operators_are_exact_and_samples_divide_the_rest(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 60_000.0))
    for start in serve(lanes, agent):
        for at in range(500, 10_000, 1000):
            frames = (TOWER,) if at < 2000 else (WRITE,) if at < 8000 else (RULES,)
            agent.sample(start + at, 1000, frames)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert shares(summary) == {("blocked", 32): 0.6, ("ops", None): 0.2, ("python", 14): 0.2}
    assert [facts.samples for facts in summary.time] == [30, 0, 10]
    assert [facts.requests for facts in summary.time] == [5, 5, 5]
    assert summary.time[0].per_request_ms == pytest.approx(6.0)
    assert summary.time[0].site.exact


def test_a_request_that_awaits_a_batcher_is_where_the_batcher_is(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 60_000.0))
    for start in range(0, 60_000, 12_000):
        agent.request(start, start + 10_000, LOOP, is_async=True)
        agent.unit(start + 5000, start + 8000, BATCHER)
        lanes.op("aten::mm", start + 5000, start + 8000, BATCHER)
        for at in range(500, 10_000, 1000):
            agent.sample(start + at, 1000, (SELECT, RUN_ONCE), LOOP)
            agent.sample(start + at, 1000, (TAKE,) if at < 5000 else (LINEAR, TOWER), BATCHER)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert shares(summary) == {("idle", 62): 0.5, ("ops", None): 0.3, ("glue", 31): 0.2}


def test_where_the_batcher_rests_the_request_s_own_thread_is_asked(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 60_000.0))
    for start in range(0, 60_000, 12_000):
        agent.request(start, start + 10_000, LOOP)
        agent.unit(start + 8000, start + 10_000, BATCHER)
        lanes.op("aten::mm", start + 8000, start + 10_000, BATCHER)
        for at in range(500, 8000, 1000):
            agent.sample(start + at, 1000, (WRITE,), LOOP)
            agent.sample(start + at, 1000, (TAKE,), BATCHER)
    assert shares(summarise(lanes.write(tmp_path, agent.tracks()))) == {("blocked", 32): 0.8, ("ops", None): 0.2}


def test_a_request_behind_another_batch_is_queued(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 60_000.0))
    for start in range(0, 60_000, 12_000):
        agent.unit(start, start + 4000, BATCHER)
        agent.request(start + 1000, start + 11_000, LOOP)
        agent.unit(start + 4000, start + 11_000, BATCHER)
        lanes.op("aten::mm", start + 4000, start + 11_000, BATCHER)
    assert shares(summarise(lanes.write(tmp_path, agent.tracks()))) == {("ops", None): 0.7, ("queued", None): 0.3}


def test_collections_and_known_locks_are_exact_whatever_samples_show(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 60_000.0))
    for start in serve(lanes, agent):
        agent.pause(start + 2000, start + 5000, (RULES,))
        agent.lock(start + 5000, start + 9000, REST, WRITE)
        for at in range(2500, 10_000, 500):
            agent.sample(start + at, 500, (REST,))
    found = shares(summarise(lanes.write(tmp_path, agent.tracks())))
    assert found == {("lock", 30): 0.4, ("gc", 14): 0.3, ("ops", None): 0.2, ("blocked", 30): 0.1}


def test_few_samples_divide_nothing(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 60_000.0))
    for start in serve(lanes, agent, requests=FEWEST - 1):
        agent.sample(start + 5000, 1000, (WRITE,))
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert shares(summary) == {("unknown", None): 0.8, ("ops", None): 0.2}
    assert [facts.samples for facts in summary.time] == [FEWEST - 1, 0]


def test_samples_of_a_shared_batch_are_looked_at_once(lanes, make_agent, tmp_path):
    """Three requests wait for one batch: five looks at its thread are no fifteen."""
    agent = make_agent((0.0, 60_000.0))
    for _ in range(3):
        agent.request(0, 10_000, LOOP)
    agent.unit(8000, 10_000, BATCHER, requests=3)
    lanes.op("aten::mm", 8000, 10_000, BATCHER)
    for at in range(1000, 6000, 1000):
        agent.sample(at, 1000, (RULES,), BATCHER)
    assert shares(summarise(lanes.write(tmp_path, agent.tracks())))["unknown", None] == 0.8


def test_a_look_that_had_to_wait_claims_no_line(lanes, make_agent, tmp_path):
    """Meant for the middle of a request, it came when the thread rested again, or worked for something else."""
    agent = make_agent((0.0, 60_000.0))
    for start in serve(lanes, agent, requests=4):
        agent.sample(start + 2500, 1000, (REST,))
        agent.sample(start + 3500, 1000, (REST,))
        agent.sample(start + 7500, 4000, (SELECT, RUN_ONCE), late=3000)
        agent.sample(start + 10_200, 2000, (RULES,), late=1200)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert {facts.what for facts in summary.time} == {"held", "ops", "blocked"}


def test_a_look_that_an_operator_let_in_counts_for_the_python_before_it(lanes, make_agent, tmp_path):
    """Operators of 0.1 ms after 0.9 ms of Python: the interpreter is free only then, so all looks fall there."""
    agent = make_agent((0.0, 60_000.0))
    for start in range(0, 60_000, 12_000):
        agent.request(start, start + 10_000)
        for at in range(0, 10_000, 1000):
            lanes.op("aten::mm", start + at + 900, start + at + 1000)
            agent.sample(start + at + 950, 1000, (LINEAR, TOWER), late=50 + 400 * (at % 3000 > 0))
    assert shares(summarise(lanes.write(tmp_path, agent.tracks()))) == {("glue", 31): 0.9, ("ops", None): 0.1}


def test_waking_an_event_loop_or_a_queue_is_waiting_for_the_interpreter(lanes, make_agent, tmp_path):
    put = Frame("app/batcher.py", 48, "rank", "app.batcher", "put")
    agent = make_agent((0.0, 60_000.0))
    for start in serve(lanes, agent):
        for at in range(2500, 10_000, 1000):
            agent.sample(start + at, 1000, (WAKE, HAND_OVER) if at < 6000 else (put,))
    assert shares(summarise(lanes.write(tmp_path, agent.tracks()))) == {("held", None): 0.8, ("ops", None): 0.2}


def test_the_route_is_the_one_that_computes_and_not_one_that_waited_once(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 900_000.0))
    serve(lanes, agent, route="POST /rank")
    agent.request(100_000, 800_000, route="POST /clicks")
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert summary.request_p50_ms == pytest.approx(10.0)
    assert sum(facts.per_request_ms for facts in summary.time) == pytest.approx(10.0)


def test_without_samples_the_functions_that_the_trace_names_divide_the_rest(lanes, make_agent, tmp_path):
    agent = make_agent((0.0, 60_000.0))
    for start in serve(lanes, agent):
        lanes.python("app/rules.py(3): penalties", start + 2000, start + 8000)
    summary = summarise(lanes.write(tmp_path, agent.tracks()))
    assert shares(summary) == {("python", 3): 0.6, ("unknown", None): 0.2, ("ops", None): 0.2}
    assert [facts.samples for facts in summary.time] == [0, 0, 0]


def test_nothing_is_said_where_a_device_is_used(machine, make_agent, tmp_path):
    machine.run(lambda made: made.kernel(500))
    assert summarise(machine.lanes.write(tmp_path, make_agent((0.0, 9000.0)).tracks())).time == ()


SERVICE = Frame("app/users.py", 12, "lookup", "app.users", "get")
ASKS = {
    "poll": (SELECT, Frame("psycopg/waiting.py", 30, "wait_selector", "psycopg.waiting", "select"), SERVICE),
    "grpc": (
        Frame("threading.py", 320, "Condition.wait", "threading", "acquire"),
        Frame("grpc/_common.py", 150, "wait", "grpc._common", "wait"),
        SERVICE,
    ),
    "child": (Frame("multiprocessing/connection.py", 947, "_recv", "multiprocessing.connection", "read"), SERVICE),
}


@pytest.mark.parametrize("asks", ASKS.values(), ids=ASKS)
def test_waiting_for_a_service_a_database_or_a_process_is_told_from_waiting_for_a_thread(
    lanes, make_agent, tmp_path, asks
):
    future = (Frame("threading.py", 320, "Condition.wait", "threading", "acquire"), RULES)
    agent = make_agent((0.0, 60_000.0))
    for start in serve(lanes, agent):
        for at in range(2500, 10_000, 1000):
            agent.sample(start + at, 1000, asks if at < 8000 else future if at < 9000 else (SELECT, RUN_ONCE))
    found = {(facts.what, facts.site and facts.site.file) for facts in summarise_facts(lanes, agent, tmp_path)}
    assert found == {
        ("outside", asks[1].file if asks[0] is SELECT else "app/users.py"),
        ("idle", "app/rules.py"),
        ("idle", None),
        ("ops", None),
    }


def summarise_facts(lanes, agent, folder):
    return summarise(lanes.write(folder, agent.tracks())).time


def test_requests_pay_only_for_what_falls_into_them(lanes, make_agent, tmp_path, monkeypatch):
    """Many requests times many collections, locks and units are too many unions of intervals."""
    claimed, sites = [], []
    claim, site_of = timefacts._Claims.claim, timefacts.site_of
    monkeypatch.setattr(timefacts._Claims, "claim", lambda self, spans: claimed.append(1) or claim(self, spans))
    monkeypatch.setattr(timefacts, "site_of", lambda *some, **more: sites.append(1) or site_of(*some, **more))
    agent = make_agent((0.0, 400_000.0))
    starts = serve(lanes, agent, requests=30)
    for start in starts:
        for at in range(2000, 4000, 500):
            agent.pause(start + at, start + at + 400)
        agent.lock(start + 4000, start + 5000, REST, WRITE)
    found = {facts.what: facts.share for facts in summarise_facts(lanes, agent, tmp_path)}
    assert found == {"ops": 0.2, "gc": pytest.approx(0.16), "lock": pytest.approx(0.1), "unknown": pytest.approx(0.54)}
    assert len(claimed) == 3 * len(starts), "operators, all collections and all waits: one claim each"
    assert len(sites) == len(starts), "one a lock"


def test_a_window_of_the_agent_s_without_a_request_is_idle_and_a_plain_trace_is_only_unmarked(
    lanes, make_agent, tmp_path
):
    lanes.op("aten::mm", 1000, 2000)
    plain = summarise(lanes.write(tmp_path)).window
    own = summarise(lanes.write(tmp_path, make_agent((0.0, 60_000.0)).tracks())).window
    assert (plain.basis, own.basis) == ("window", "window")
    assert [caveat.code for caveat in plain.caveats if caveat.code in ("idle", "no_requests")] == ["no_requests"]
    assert [caveat.code for caveat in own.caveats if caveat.code in ("idle", "no_requests")] == ["idle"]


def test_what_became_of_the_order_of_a_window_is_a_caveat_of_its_figures(lanes, make_agent, tmp_path):
    short = Caveat("requests_missing", "The window was to hold 20 whole requests; 3 had ended when it closed.", 17)
    agent = make_agent((0.0, 60_000.0))
    serve(lanes, agent)
    tracks = agent.tracks()
    tracks = replace(tracks, capture=replace(tracks.capture, caveats=(short,)))
    assert short in summarise(lanes.write(tmp_path, tracks)).window.caveats
