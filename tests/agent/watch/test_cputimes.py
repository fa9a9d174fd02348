"""Who ran while a look was late: real threads by the kernel's clocks, and made times for what is chance otherwise."""

import threading
import time

import pytest
from midwatch.watch.cputimes import CpuTimes, Runner, of_thread

MS = 1_000_000


def test_the_clock_of_a_thread_that_sorts_runs_and_that_of_one_that_waits_stands(stage):
    def work(done):
        begin.wait()
        sorted(float(-number % 7919) for number in range(400_000))
        ran.set()
        done.wait()

    begin, ran = threading.Event(), threading.Event()
    worker, sleeper = stage.start(work, stage.done), stage.start(stage.done.wait)
    times = CpuTimes(idents=lambda: (worker.ident, sleeper.ident))
    times.note(time.perf_counter_ns())
    began_ns = time.perf_counter_ns()
    begin.set()
    assert ran.wait(20)
    now_ns = time.perf_counter_ns()
    runner = times.alone(now_ns, now_ns - began_ns, [worker.ident, sleeper.ident])
    assert runner is None or runner.ident == worker.ident  # on a busy machine it may have had no core for half of it
    stage.until(lambda: of_thread(worker.native_id) >= 10 * MS)
    assert of_thread(sleeper.native_id) < 10 * MS


def test_a_thread_that_has_ended_has_no_clock(stage):
    thread = stage.start(stage.done.wait)
    native_id = thread.native_id
    assert of_thread(native_id) > 0
    stage.done.set()
    thread.join()

    def ended():
        try:
            of_thread(native_id)
        except OSError:
            return True
        return False

    stage.until(ended)  # the kernel takes a moment


class Scene:
    """Threads 1 to 3, read at 1,000 ms; then a look that was due 20 ms later and came 40 ms late."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr("midwatch.watch.cputimes.describe", lambda ident: type("Name", (), {"native_id": ident}))
        self.cpu = {1: 500 * MS, 2: 700 * MS, 3: 0}
        self.times = CpuTimes(self.read, lambda: list(self.cpu))
        self.times.note(1_000 * MS)

    def read(self, native_id):
        if native_id not in self.cpu:
            raise OSError
        return self.cpu[native_id]

    def alone(self, *ran_ms, late_ms=40, present=(1, 2, 3)):
        for ident, ran in enumerate(ran_ms, start=1):
            self.cpu[ident] += ran * MS
        return self.times.alone(1_020 * MS + late_ms * MS, late_ms * MS, present)


@pytest.fixture
def scene(monkeypatch):
    return Scene(monkeypatch)


def test_what_one_has_run_beyond_the_planned_time_it_has_run_in_the_late_time(scene):
    assert scene.alone(3, 58, 0) == Runner(2, 38 * MS)


def test_no_more_is_claimed_than_the_delay(scene):
    assert scene.alone(0, 65, 0) == Runner(2, 40 * MS)


@pytest.mark.parametrize(
    "ran_ms",
    [
        (0, 35, 0),  # it may have run before the look was due
        (20, 60, 0),  # another may have run for half of it
        (0, 0, 0),  # nobody ran: the process had no core
    ],
)
def test_where_another_may_have_or_nobody_did_nobody_is_named(scene, ran_ms):
    assert scene.alone(*ran_ms) is None


def test_a_thread_that_was_not_read_may_have_been_the_one(scene):
    assert scene.alone(0, 60, 0, present=(1, 2, 3, 4)) is None


def test_so_may_one_that_ended(scene):
    del scene.cpu[1]
    assert scene.alone() is None


def test_a_reading_serves_once(scene):
    assert scene.alone(0, 60, 0) is not None
    assert scene.alone(0, 60, 0) is None


def test_an_ident_that_is_used_again_is_read_by_its_new_id(scene, monkeypatch):
    monkeypatch.setattr("midwatch.watch.cputimes.describe", lambda ident: type("Name", (), {"native_id": ident + 10}))
    scene.cpu = {11: 0, 12: 0, 13: 0}
    scene.times._idents = lambda: [1, 2, 3]
    scene.times.note(1_000 * MS)  # finds that the old ids are gone
    scene.times.note(1_000 * MS)
    scene.cpu[12] = 60 * MS
    assert scene.times.alone(1_060 * MS, 40 * MS, (1, 2, 3)) == Runner(2, 40 * MS)


def test_very_many_threads_are_not_read(monkeypatch):
    monkeypatch.setattr("midwatch.watch.cputimes.describe", lambda ident: type("Name", (), {"native_id": ident}))
    read = []
    times = CpuTimes(lambda native_id: read.append(native_id) or 1, lambda: range(1, 66))
    times.note(5)
    assert not read
