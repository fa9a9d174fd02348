"""What stops of the host cost a request, against a machine without: allocator, collections, locks, compilations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from midwatch.model.samples import CompileEvent
from midwatch.model.site import Frame
from midwatch.trace.summary import summarise

WAITER, HOLDER = Frame("app/rank.py", 3, "rank"), Frame("app/report.py", 9, "render")


def take(m, micros=60):
    m.lanes.call("cudaMalloc", m.clock, m.clock + micros)
    m.think(micros)


def give_back(m, micros=40):
    """As the driver does it: it waits for the device first."""
    done = max(m.clock, m.free + 2) + micros
    m.lanes.call("cudaFree", m.clock, done)
    m.clock = done


def on_an_idle_device(m, *, alloc=True):
    for _ in range(4):
        if alloc:
            take(m)
        m.think(10)
        m.kernel(3)
    m.read(4096)
    if alloc:
        for _ in range(4):
            give_back(m)


def behind_a_queue(m, *, alloc=True):
    m.kernel(900)
    for _ in range(4):
        if alloc:
            take(m)
        m.think(10)
        m.kernel(3)
    m.read(4096)


def between_two_stages(m, *, alloc=True):
    """Giving back waits for the first stage, so that the second is launched into an idle device."""
    m.kernel(300)
    m.think(10)
    if alloc:
        give_back(m)
    for _ in range(20):
        m.think(10)
        m.kernel(3)
    m.read(4096)


@pytest.mark.parametrize(
    ("program", "calls_ms", "gain_ms"),
    [(on_an_idle_device, 0.400, 0.400), (behind_a_queue, 0.240, 0.0), (between_two_stages, 0.333, 0.262)],
)
def test_the_gain_is_what_the_request_takes_less_without_the_calls(make_machine, tmp_path, program, calls_ms, gain_ms):
    machine, other = make_machine(), make_machine()
    took = [machine.run(program) / 1000 for _ in range(3)]
    left = [other.run(lambda m: program(m, alloc=False)) / 1000 for _ in range(3)]
    summary = summarise(machine.lanes.write(tmp_path), untraced_p50_ms=took[1])
    assert sum(facts.total_ms for facts in summary.allocs) / 3 == pytest.approx(calls_ms, abs=0.01)
    for facts in summary.allocs:
        assert facts.recoverable_ms == pytest.approx(took[1] - left[1], abs=0.005)
    assert took[1] - left[1] == pytest.approx(gain_ms, abs=0.01)


def test_where_no_request_can_be_replayed_there_is_no_gain_rather_than_none_to_be_had(lanes, tmp_path):
    lanes.call("cudaMalloc", 10, 80)
    lanes.call("cudaLaunchKernel", 90, 95)
    lanes.request(0, 200)
    lanes.launch(300, 5, 306, 330)
    (facts,) = summarise(lanes.write(tmp_path)).allocs
    assert facts.recoverable_ms is None


def stop_on_an_idle_device(m, stopped):
    for _ in range(5):
        m.think(10)
        m.kernel(3)
    m.think(stopped)
    for _ in range(5):
        m.think(10)
        m.kernel(3)
    m.read(4096)


def stop_behind_a_queue(m, stopped):
    m.kernel(2000)
    m.think(stopped)
    m.kernel(3)
    m.read(4096)


@pytest.mark.parametrize("kind", ["gc", "locks", "compiles"])
@pytest.mark.parametrize(
    ("program", "into_us", "gain_ms"), [(stop_on_an_idle_device, 75, 0.9), (stop_behind_a_queue, 5, 0.0)]
)
def test_a_stop_gains_only_what_the_device_does_not_work_meanwhile(
    make_machine, make_agent, tmp_path, kind, program, into_us, gain_ms
):
    machine, agent, events = make_machine(), make_agent((0, 20_000)), []
    for _ in range(3):
        start = machine.clock
        program(machine, 900)
        agent.request(start, machine.clock)
        stop = start + into_us, start + into_us + 900
        agent.pause(*stop) if kind == "gc" else agent.lock(*stop, WAITER, HOLDER)
        events.append(CompileEvent(agent.unix(stop[0]), 900_000, "dynamo", "0/0", 1))
        took_ms = (machine.clock - start) / 1000
        machine.think(20)
    tracks = agent.tracks()
    tracks = replace(tracks, compiles=tuple(events), locks=()) if kind == "compiles" else tracks
    summary = summarise(machine.lanes.write(tmp_path, tracks), untraced_p50_ms=took_ms)
    (facts,) = getattr(summary, kind)
    assert (facts.requests_affected, facts.total_ms) == (3, pytest.approx(2.7))
    assert facts.recoverable_ms == pytest.approx(gain_ms, abs=0.02)


def test_threads_that_wait_for_data_at_once_wait_no_longer_than_one(lanes, tmp_path):
    """Nothing marks requests: the window counts as one, with all threads that work."""
    wait = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    for thread, start, end in ((100, 1_000, 7_000), (200, 2_000, 8_000)):
        lanes.op(wait, start, end, tid=thread)
        lanes.launch(start - 900, 5, start - 890, start - 800, tid=thread)
        lanes.launch(9_000, 5, 9_010, 10_000, tid=thread)
    loader = summarise(lanes.write(tmp_path)).loader
    assert (loader.count, loader.total_ms) == (1, pytest.approx(7.0))
    assert loader.share == pytest.approx(0.7, abs=0.02)
