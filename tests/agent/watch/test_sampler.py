"""The sampler of a window: what it keeps, and that it finds real waits in real threads."""

import sys
import threading
import time

import pytest
from midwatch.clock import SystemClock
from midwatch.model.plain import from_plain, to_plain
from midwatch.model.tracks import SampleRow
from midwatch.requests.tracker import Tracker
from midwatch.watch.lockprobe import LockProbe
from midwatch.watch.sampler import WindowSampler
from midwatch.watch.stacks import Stacks

MS = 1_000_000


class Service:
    """A tracker on the real clock, and a sampler beside it."""

    def __init__(self, **settings):
        self.clock = SystemClock()
        self.tracker = Tracker(self.clock)
        self.sampler = WindowSampler(self.tracker, Stacks(), LockProbe(), self.clock, **settings)

    def request(self, work):
        mark = self.tracker.begin("rank", is_async=False)
        work()
        self.tracker.end(mark)

    def window(self, work):
        self.sampler.start()
        try:
            work()
        finally:
            result = self.sampler.stop()
        return result


def rows_of(result, ident):
    native = next(thread.native_id for thread in result.threads if thread.ident == ident)
    return [row for row in result.samples if row.thread_id == native]


def innermost(result, row):
    return result.frames[result.stacks[row.stack][0]]


def test_the_line_of_a_wait_and_its_length():
    service = Service()
    result = service.window(lambda: service.request(lambda: time.sleep(0.1)))
    rows = rows_of(result, threading.get_ident())
    asleep = [row for row in rows if innermost(result, row).callee == "sleep"]
    assert len(asleep) > 5
    assert sum(row.weight_ns for row in asleep) > 70 * MS
    assert {innermost(result, row).file for row in asleep} == {"tests/agent/watch/test_sampler.py"}
    assert [row.unix_ns for row in rows] == sorted(row.unix_ns for row in rows)
    assert abs(rows[0].unix_ns - time.time_ns()) < 60 * 10**9
    assert from_plain(SampleRow, to_plain(rows[0])) == rows[0]


def test_weights_of_a_thread_add_up_to_the_window():
    service = Service(hz=200)
    began = service.clock.perf_ns()
    result = service.window(lambda: service.request(lambda: time.sleep(0.08)))
    took = service.clock.perf_ns() - began
    total = sum(row.weight_ns for row in rows_of(result, threading.get_ident()))
    assert 60 * MS < total <= took


def test_threads_of_units_are_sampled_and_sleeping_others_are_not(stage):
    def busy():
        while not stage.done.is_set():
            time.sleep(0.0005)

    service = Service()
    unit = stage.start(busy, name="batcher")
    idle = stage.start(stage.done.wait, name="metrics")
    stage.standing(unit, "busy", "sleep")
    stage.standing(idle, "wait", "acquire")
    service.tracker.unit_seen[unit.ident] = service.clock.perf_ns()
    result = service.window(lambda: time.sleep(0.08))
    names = {thread.name for thread in result.threads}
    assert "batcher" in names
    assert "metrics" not in names
    assert "midwatch-window" not in names
    assert len(rows_of(result, unit.ident)) > 5


def test_a_thread_that_moves_is_seen_although_it_serves_nothing(stage):
    steps = threading.Event()

    def wanders():
        while not stage.done.is_set():
            steps.wait(0.003)
            time.sleep(0.003)

    mover = stage.start(wanders, name="logger")
    service = Service()
    result = service.window(lambda: stage.until(lambda: len(rows_of_named(service, "logger")) > 1))
    assert rows_of(result, mover.ident)


def rows_of_named(service, name):
    current = service.sampler._round
    idents = [ident for ident, thread in current._threads.items() if thread.name == name]
    return [row for row in current._rows if row.ident in idents]


def test_a_lock_and_its_holder(stage):
    lock, held = threading.Lock(), threading.Event()

    def hold():
        with lock:
            held.set()
            stage.done.wait(0.1)

    def wait():
        with lock:
            pass

    service = Service()
    holder = stage.start(hold, name="refresher")
    held.wait()
    result = service.window(lambda: service.request(wait))
    (seen,) = result.locks
    assert seen.lock == "Lock lock"
    assert seen.holder_thread_name == "refresher"
    assert seen.holder_thread_id == holder.native_id
    assert seen.duration_ns > 30 * MS
    assert any(frame.function.endswith("hold") for frame in seen.holder)


def test_windows_do_not_mix_and_stop_without_start_is_empty():
    service = Service()
    assert service.sampler.stop().samples == ()
    first = service.window(lambda: service.request(lambda: time.sleep(0.02)))
    second = service.window(lambda: service.request(lambda: time.sleep(0.02)))
    assert first.samples
    assert second.samples
    assert max(row.unix_ns for row in first.samples) < min(row.unix_ns for row in second.samples)
    assert service.sampler.stop().samples == ()
    assert not any(thread.name.startswith("midwatch") for thread in threading.enumerate())


def test_frames_and_stacks_stand_once():
    service = Service()
    result = service.window(lambda: service.request(lambda: time.sleep(0.05)))
    assert len(set(result.stacks)) == len(result.stacks)
    assert {index for stack in result.stacks for index in stack} <= set(range(len(result.frames)))
    assert max(row.stack for row in result.samples) == len(result.stacks) - 1


def test_names_can_be_hidden():
    service = Service(redact=True)
    result = service.window(lambda: service.request(lambda: time.sleep(0.02)))
    assert {thread.name for thread in result.threads} == {""}


class SlowClock(SystemClock):
    """A clock on which each turn costs 5 ms of CPU."""

    def __init__(self):
        super().__init__()
        self.now = 10**9
        self.cpu = 0
        self.waits = []

    def perf_ns(self):
        return self.now

    def cpu_ns(self):
        self.cpu += 5 * MS
        return self.cpu

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.now += int(seconds * 1e9)
        if len(self.waits) > 60:
            time.sleep(0.01)


def test_dear_samples_come_less_often():
    clock = SlowClock()
    tracker = Tracker(clock)
    sampler = WindowSampler(tracker, Stacks(), LockProbe(), clock)
    sampler.start()
    end = time.monotonic() + 20
    while len(clock.waits) <= 60 and time.monotonic() < end:
        time.sleep(0.002)
    sampler.stop()
    assert clock.waits[0] == pytest.approx(0.001)
    assert clock.waits[-1] > 0.09


def test_the_number_of_samples_is_bounded(monkeypatch):
    from midwatch.drops import drops
    from midwatch.watch import sampler

    monkeypatch.setattr(sampler, "_MAX_SAMPLES", 3)
    before = dict(drops.counts()).get("samples_of_one_window", 0)
    service = Service()
    result = service.window(lambda: service.request(lambda: time.sleep(0.05)))
    assert len(result.samples) == 3
    assert dict(drops.counts())["samples_of_one_window"] > before
    assert sys.getsizeof(result.samples) < 1000
