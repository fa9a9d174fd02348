"""The replay against a machine whose answer is known: run the program again without the cause, and compare."""

from __future__ import annotations

import statistics

import pytest
from midwatch.trace.launchfacts import squeezable
from midwatch.trace.load import load
from midwatch.trace.plan import make_plan, measure
from midwatch.trace.replay import replay
from midwatch.trace.scene import build_scene
from midwatch.trace.summary import summarise
from midwatch.trace.waits import find_waits

MICROSECOND = 1000


def plans_of(path):
    scene = build_scene(load(path))
    waits = find_waits(scene)
    timing = measure(scene)
    plans = [
        make_plan(scene, timing, request, [(i, w) for i, w in enumerate(waits) if request.index in w.requests])
        for request in scene.spans.whole
    ]
    return plans, waits


def behind_a_queue(m, *, wait=True):
    """Work is queued when the metric reads its scalar, and a stage of small kernels follows."""
    m.kernel(800)
    m.think(30)
    m.read(wait=wait)
    for _ in range(40):
        m.think(10)
        m.kernel(12)
    m.read(4096)


def on_an_idle_device(m, *, wait=True):
    """Tiny kernels with much Python in between: the device has long finished when the scalar is read."""
    for _ in range(20):
        m.think(25)
        m.kernel(2)
    m.read(wait=wait)
    for _ in range(20):
        m.think(25)
        m.kernel(2)
    m.read(4096)


def device_bound(m, *, wait=True):
    """The device is the limit throughout: what follows the scalar is long, too."""
    m.kernel(900)
    m.read(wait=wait)
    m.kernel(900)
    m.read(4096)


def between_stages(m, *, wait=True):
    for _ in range(4):
        m.kernel(200)
        m.think(5)
        m.synchronize(wait=wait)
        m.think(60)
    m.read(4096)


@pytest.mark.parametrize("program", [behind_a_queue, on_an_idle_device, device_bound, between_stages])
def test_unchanged_the_replay_gives_the_recorded_time(machine, tmp_path, program):
    took = [machine.run(program) for _ in range(3)]
    plans, _ = plans_of(machine.lanes.write(tmp_path))
    assert [replay(plan) for plan in plans] == [pytest.approx(t * MICROSECOND, abs=2) for t in took]


@pytest.mark.parametrize("program", [behind_a_queue, on_an_idle_device, device_bound, between_stages])
def test_without_the_wait_it_gives_what_the_machine_takes_without_it(make_machine, tmp_path, program):
    machine, other = make_machine(), make_machine()
    for _ in range(3):
        machine.run(program)
        truth = other.run(lambda m: program(m, wait=False))
    plans, waits = plans_of(machine.lanes.write(tmp_path))
    dropped = {i for i, wait in enumerate(waits) if wait.followed}
    # The calls of the copy stay in the machine and go in the replay: five microseconds of host work.
    assert [replay(plan, drop=dropped) for plan in plans] == [pytest.approx(truth * MICROSECOND, abs=6000)] * 3


def test_the_gain_is_the_device_s_idle_time_and_no_more(make_machine, tmp_path):
    facts = {}
    for program in (behind_a_queue, on_an_idle_device, device_bound):
        machine = make_machine()
        took = statistics.median(machine.run(program) for _ in range(5)) / 1000
        summary = summarise(machine.lanes.write(tmp_path), untraced_p50_ms=took)
        (wait,) = [w for w in summary.waits if w.cause == "item"]
        assert (wait.count, wait.followed_by_work, wait.handover, wait.requests_affected) == (5, 5, 0, 5)
        facts[program] = wait.recoverable_ms
    # 800 us of work hide 40 launches of 15 us, whose kernels then take 13 us one after the other.
    assert facts[behind_a_queue] == pytest.approx(0.087, abs=0.02)
    assert facts[on_an_idle_device] < 0.02
    assert facts[device_bound] < 0.02


def test_python_between_two_stages_is_worth_its_own_length(make_machine, tmp_path):
    def program(m, python=700):
        for _ in range(10):
            m.think(8)
            m.kernel(3)
        m.think(python)
        for _ in range(10):
            m.think(8)
            m.kernel(3)
        m.read(4096)

    machine, other = make_machine(), make_machine()
    took = [machine.run(program) for _ in range(3)]
    truth = [other.run(lambda m: program(m, python=0)) for _ in range(3)]
    summary = summarise(machine.lanes.write(tmp_path), untraced_p50_ms=took[1] / 1000)
    (gap,) = summary.gaps
    assert (gap.host, gap.count, gap.device, gap.site) == ("unknown", 3, True, None)
    assert gap.per_request_ms == pytest.approx(0.7, abs=0.02)
    assert gap.recoverable_ms == pytest.approx((took[1] - truth[1]) / 1000, abs=0.01)


def test_python_that_the_device_hides_is_no_gap(machine, tmp_path):
    def program(m):
        m.kernel(2000)
        m.think(700)
        m.kernel(50)
        m.read(4096)

    for _ in range(3):
        machine.run(program)
    assert summarise(machine.lanes.write(tmp_path)).gaps == ()


def test_launched_at_once_the_kernels_stand_back_to_back(machine, tmp_path):
    def program(m):
        for _ in range(100):
            m.think(10)
            m.kernel(2)
        m.read(4096)

    took = [machine.run(program) for _ in range(3)]
    path = machine.lanes.write(tmp_path)
    plans, _ = plans_of(path)
    assert len(squeezable(plans[0])) == 99
    # The first launch stays; then 100 kernels of 2 us, 1 us apart, and the copy with its wait.
    left = 10 + 6 + 100 * 3 - 1 + 1 + 2 + 2
    assert replay(plans[0], squeeze=squeezable(plans[0])) == pytest.approx(left * MICROSECOND, abs=2000)
    summary = summarise(path, untraced_p50_ms=took[0] / 1000)
    assert summary.launch.recoverable_ms == pytest.approx((took[0] - left) / 1000, abs=0.01)
    assert summary.launch.replayed_ms == pytest.approx(left / 1000, abs=0.01)
    assert (summary.launch.per_request, summary.launch.stable_sequence, summary.launch.hazards) == (100, True, ())


def test_work_of_another_stream_is_waited_for_as_it_was(lanes, tmp_path):
    """A kernel that started when one on another stream ended follows it when that one comes earlier."""
    lanes.launch(0, 5, 10, 110, stream=7)
    lanes.call("cudaDeviceSynchronize", 20, 112)
    lanes.launch(120, 5, 126, 226, stream=7)
    lanes.launch(130, 5, 228, 238, stream=8)
    lanes.call("cudaDeviceSynchronize", 140, 240)
    lanes.request(0, 240)
    plans, waits = plans_of(lanes.write(tmp_path))
    dropped = {i for i, w in enumerate(waits) if w.followed}
    # Without the first wait the second kernel follows the first at 1 us, and the third the second as before.
    assert replay(plans[0], drop=dropped) == pytest.approx((110 + 1 + 100 + 2 + 10 + 2) * MICROSECOND, abs=MICROSECOND)


def test_a_stall_of_the_device_is_not_gained_back(lanes, tmp_path):
    """Another tenant held the device for 2 ms after the launch: without the wait before it, it would have, too."""
    lanes.launch(0, 5, 6, 106)
    lanes.call("cudaDeviceSynchronize", 10, 108)
    lanes.launch(110, 5, 2116, 2216)
    lanes.call("cudaDeviceSynchronize", 120, 2218)
    lanes.request(0, 2220)
    plans, waits = plans_of(lanes.write(tmp_path))
    dropped = {i for i, w in enumerate(waits) if w.followed}
    # With no other launch to compare with, up to 30 us of the delay are taken for the usual latency.
    assert replay(plans[0], drop=dropped) == pytest.approx(2220_000, abs=40_000)


def test_a_request_that_ends_before_its_work_still_pays_for_it(lanes, tmp_path):
    """A training step returns while the device works on: without the wait in its middle the device is the limit."""
    lanes.launch(0, 5, 6, 506)
    lanes.call("cudaDeviceSynchronize", 10, 508)
    lanes.launch(510, 5, 516, 1016)
    lanes.request(0, 520)
    plans, waits = plans_of(lanes.write(tmp_path))
    dropped = {i for i, w in enumerate(waits) if w.followed}
    assert replay(plans[0], drop=dropped) == pytest.approx(511_000, abs=2_000)
