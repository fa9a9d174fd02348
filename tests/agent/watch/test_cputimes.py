"""CPU times of real threads, read by the kernel's ids."""

import threading
import time

import pytest
from midwatch.watch.cputimes import CpuTimes, of_thread


def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_who_ran_is_told_from_who_slept(stage):
    def work(done):
        begin.wait()
        burn(0.05)
        ran.set()
        done.wait()

    begin, ran = threading.Event(), threading.Event()
    worker, sleeper = stage.start(work, stage.done), stage.start(stage.done.wait)
    times = CpuTimes()
    times.note()
    begin.set()
    assert ran.wait(20)
    found = times.ran()
    assert found[worker.ident] >= 50_000_000
    assert found[sleeper.ident] < 10_000_000
    assert times.ran()[worker.ident] < 50_000_000  # since the last reading


def test_a_thread_that_has_ended_has_no_time(stage):
    thread = stage.start(stage.done.wait)
    times = CpuTimes()
    times.note()
    native_id = thread.native_id
    stage.done.set()
    thread.join()
    stage.until(lambda: thread.ident not in times.ran())  # the kernel takes a moment
    with pytest.raises(OSError, match="Invalid argument"):
        of_thread(native_id)


def test_nothing_is_known_before_the_first_reading_and_of_very_many_threads():
    assert CpuTimes().ran() == {}
    times = CpuTimes(lambda _native_id: 1, lambda: range(1, 66))
    times.note()
    assert times.ran() == {}


def test_an_ident_that_is_used_again_is_another_thread(monkeypatch):
    """The kernel's id of the first one is gone, so its time is, and the next reading asks for the new id."""
    alive = {11: 5_000}

    def read(native_id):
        if native_id not in alive:
            raise OSError
        return alive[native_id]

    names = {"native_id": 11}
    monkeypatch.setattr(
        "midwatch.watch.cputimes.describe", lambda _ident: type("Name", (), {"native_id": names["native_id"]})
    )
    times = CpuTimes(read, lambda: (7,))
    times.note()
    alive.clear()
    alive[12] = 70_000
    names["native_id"] = 12
    assert times.ran() == {}
    times.note()
    alive[12] += 9
    assert times.ran() == {7: 9}
