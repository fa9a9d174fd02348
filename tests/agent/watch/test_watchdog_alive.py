"""The whole watchdog in real threads, on the real clock."""

import contextlib
import ctypes
import sys
import threading
import time

import pytest
from midwatch.clock import SystemClock
from midwatch.requests.steps import Steps
from midwatch.requests.tracker import Tracker, install
from midwatch.watch.lockprobe import LockProbe
from midwatch.watch.stacks import Stacks
from midwatch.watch.watchdog import Watchdog

MS = 1_000_000


@pytest.fixture
def alive(own_frames):
    """A running watchdog on the real clock and the real tracker."""
    clock = SystemClock()
    tracker = Tracker(clock)
    dog = Watchdog(tracker, Stacks(), LockProbe(), clock, frames=own_frames)
    turned = threading.Event()
    turn = dog.turn
    dog.turn = lambda: (turn(), turned.set())[0]
    dog.start()
    assert turned.wait(10), "the watchdog never took its first turn"
    yield tracker, dog
    dog.stop()
    assert not any(thread.name.startswith("midwatch") for thread in threading.enumerate())


def serve(tracker, work, limit_ms):
    tracker.route("rank").limit_ns = limit_ms * MS
    mark = tracker.begin("rank", is_async=False)
    work()
    tracker.end(mark)
    return mark


@contextlib.contextmanager
def patient_switching():
    """A thread that wants the GIL back waits for 100 ms, so that on a busy machine too the look is taken meanwhile."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(0.1)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)


def test_the_line_of_a_blocking_call(alive):
    tracker, dog = alive
    mark = serve(tracker, lambda: time.sleep(0.4), 30)  # long, for a busy machine
    samples = [s for s in dog.evidence(mark, mark.end_ns).samples if s.role == "request"]
    assert len(samples) >= 2  # so many looks at one stack are told as two
    asleep = [s for s in samples if s.frames[0].callee == "sleep"]
    assert sum(s.weight_ns for s in asleep) > 100 * MS
    assert sum(s.weight_ns for s in samples) <= mark.end_ns - mark.start_ns


def test_c_code_that_holds_the_gil_lets_exactly_one_look_through_and_that_names_the_line(alive):
    tracker, dog = alive
    hog = ctypes.PyDLL(None).usleep

    def work():
        hog(300_000)

    with patient_switching():
        mark = serve(tracker, work, 30)
    samples = [s for s in dog.evidence(mark, mark.end_ns).samples if s.role == "request"]
    assert samples
    heaviest = max(samples, key=lambda s: s.weight_ns)
    assert heaviest.weight_ns > 250 * MS
    assert heaviest.late_ns > 200 * MS
    assert heaviest.frames[0].function.endswith("work")
    assert heaviest.frames[0].callee == "hog"


def test_another_thread_that_holds_the_gil_is_named(alive, stage):
    """Who gets the GIL first afterwards is up to chance, so not every time: the holder may have moved on."""
    tracker, dog = alive
    hog, begun = ctypes.PyDLL(None).usleep, threading.Event()

    def hold():
        while not stage.done.is_set():
            begun.wait()
            begun.clear()
            hog(100_000)

    stage.start(hold, name="codec")

    def work():
        begun.set()
        time.sleep(0.03)

    def named():
        mark = serve(tracker, work, 20)
        samples = dog.evidence(mark, mark.end_ns).samples
        others = [s for s in samples if s.role == "other" and s.thread_name == "codec"]
        return [s for s in others if s.frames[0].callee == "hog" and s.late_ns > 50 * MS]

    try:
        assert stage.until(named)
    finally:
        stage.done.set()
        begun.set()


def test_requests_inside_their_deadline_are_left_alone(alive):
    tracker, dog = alive
    marks = [serve(tracker, lambda: sum(range(1000)), 60_000) for _ in range(200)]
    assert all(dog.evidence(mark, mark.end_ns).samples == () for mark in marks)


def test_in_a_service_with_an_event_loop_the_batchers_line_is_seen(alive, stage):
    """The request's own thread sits in `select`; its answer comes from a thread that runs units."""
    import asyncio
    import queue

    tracker, dog = alive
    tracker.route("rank").limit_ns = 30 * MS
    clock, work, marks = SystemClock(), queue.SimpleQueue(), []

    def batcher():
        while (job := work.get()) is not None:
            loop, future = job
            tracker.unit_seen[threading.get_ident()] = clock.perf_ns()
            time.sleep(0.12)
            loop.call_soon_threadsafe(future.set_result, 1)

    thread = stage.start(batcher, name="batcher")

    async def serve_one():
        mark = tracker.begin("rank")
        marks.append(mark)
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        work.put((loop, future))
        await future
        tracker.end(mark)

    asyncio.run(serve_one())
    work.put(None)
    thread.join()
    (mark,) = marks
    samples = dog.evidence(mark, mark.end_ns).samples
    assert mark.is_async
    own = [s for s in samples if s.role == "request"]
    unit = [s for s in samples if s.role == "unit"]
    assert "select" in {s.frames[0].function.rpartition(".")[2] for s in own}
    assert {(s.thread_name, s.thread_id) for s in unit} == {("batcher", thread.native_id)}
    assert sum(s.weight_ns for s in unit if s.frames[0].callee == "sleep") > 80 * MS


@pytest.mark.parametrize("called", ["directly", "by a list of callbacks"])
def test_a_slow_step_is_seen_while_it_lasts_however_it_is_called(alive, stage, called):
    tracker, _ = alive
    tracker.route("step").limit_ns = 20 * MS
    install(tracker)
    steps = Steps()

    def call_all(callbacks):
        for callback in callbacks:
            callback()

    def train():
        for number in range(4):
            if called == "directly":
                steps.step()
            else:
                call_all([steps.step])
            if number == 1:
                time.sleep(0.1)

    try:
        stage.start(train).join(20)
        assert sum(mark.end_ns - mark.start_ns > 100 * MS for mark in tracker.drain()) == 1
    finally:
        install(None)


def test_it_stops_at_once_even_while_a_request_is_overdue(alive):
    tracker, dog = alive
    tracker.route("slow").limit_ns = 1
    mark = tracker.begin("slow", is_async=False)
    began = time.perf_counter()
    dog.stop()
    assert time.perf_counter() - began < 1.0
    tracker.end(mark)
