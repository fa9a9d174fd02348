"""The watchdog's decisions, with a fake clock and real frames."""

import sys
import threading
import time
from dataclasses import dataclass

import pytest
from midwatch.watch.cputimes import CpuTimes
from midwatch.watch.lockprobe import LockProbe
from midwatch.watch.stacks import Stacks
from midwatch.watch.watchdog import PARKED, Watchdog

MS = 1_000_000


class FakeClock:
    """Hands that a test turns."""

    def __init__(self):
        self.now_ns = 1_000 * MS
        self.cpu = 0

    def perf_ns(self):
        return self.now_ns

    def cpu_ns(self):
        return self.cpu

    def to_unix(self, perf_ns):
        return perf_ns + 10**18

    def wait(self, event, timeout_s):
        return event.is_set()


@dataclass
class Request:
    request_id: int
    thread_ident: int
    start_ns: int
    deadline_ns: int
    is_async: bool = False
    open_end: bool = False


class FakeTracker:
    def __init__(self):
        self.requests = []
        self.units = set()
        self.shortest_ns = 0

    def in_flight(self):
        return list(self.requests)

    def unit_threads(self):
        return self.units

    def wait_for_request(self, timeout_s):
        return bool(self.requests)

    def wake(self):
        pass

    def forget(self, request_id):
        self.requests = [request for request in self.requests if request.request_id != request_id]


class Scene:
    """A watchdog on a fake clock. Frames are real ones of this process."""

    def __init__(self, frames):
        self.clock = FakeClock()
        self.tracker = FakeTracker()
        self.begun = {}
        self.dog = Watchdog(self.tracker, Stacks(), LockProbe(), self.clock, frames=frames)

    def begin(self, request_id=1, *, ident=None, limit_ms=100, is_async=False):
        now = self.clock.now_ns
        request = Request(request_id, ident or threading.get_ident(), now, now + limit_ms * MS, is_async)
        self.tracker.requests.append(request)
        self.tracker.shortest_ns = min(self.tracker.shortest_ns or limit_ms * MS, limit_ms * MS)
        self.begun[request_id] = request
        return request

    def evidence(self, request_id):
        request = self.begun[request_id]
        return self.dog.evidence(request, self.clock.now_ns)

    def turn(self, after_ms=0.0):
        self.clock.now_ns += round(after_ms * MS)
        pause = self.dog.turn()
        return pause if pause == PARKED else pause / MS


@pytest.fixture
def scene(own_frames):
    return Scene(own_frames)


def test_it_blocks_while_nothing_is_in_flight(scene):
    assert scene.turn() == PARKED


def test_it_does_not_block_between_two_requests_but_once_they_stop(scene):
    """To wake it would cost the next request; asleep it wakes before that could be overdue."""
    scene.begin(1, limit_ms=30)
    assert scene.turn() == 30
    scene.tracker.requests.clear()
    pauses = []
    while (pause := scene.turn(30)) != PARKED:
        pauses.append(pause)
    assert set(pauses) == {30}
    assert 10 < len(pauses) < 40
    assert scene.turn() == PARKED


def test_it_sleeps_to_the_earliest_deadline_and_50_ms_at_most(scene):
    scene.begin(1, limit_ms=400)
    assert scene.turn() == 50
    scene.begin(2, limit_ms=30)
    assert scene.turn(10) == 20


def test_a_request_without_a_deadline_is_never_looked_at(scene):
    scene.begin().deadline_ns = 0
    assert scene.turn(10_000) == 50
    assert scene.evidence(1).samples == ()


def test_the_first_look_stands_for_the_whole_time_before_and_later_ones_for_the_time_between(scene):
    request = scene.begin(limit_ms=100)
    scene.turn()
    scene.turn(50)
    assert scene.turn(50) == 2
    scene.turn(2)
    samples = [s for s in scene.evidence(1).samples if s.role == "request"]
    assert [s.weight_ns for s in samples] == [100 * MS, 2 * MS]
    assert [s.late_ns for s in samples] == [0, 0]
    assert samples[0].unix_ns == scene.clock.to_unix(request.deadline_ns)
    assert samples[0].thread_ident == threading.get_ident()
    assert samples[0].thread_id == threading.get_native_id()
    assert samples[0].thread_name == "MainThread"
    assert samples[0].request_id == 1
    # The fake clock stands still, so the innermost frame is the watchdog's own look; the test is further out.
    assert any(frame.function.startswith("test_the_first_look") for frame in samples[0].frames)


def test_a_late_turn_says_how_late_it_was(scene):
    scene.begin(limit_ms=100)
    scene.turn()
    scene.turn(50)
    scene.turn(350)
    (sample,) = [s for s in scene.evidence(1).samples if s.role == "request"]
    assert sample.late_ns == 300 * MS
    assert sample.weight_ns == 400 * MS


def test_a_parked_watchdog_that_is_kept_from_waking_is_late_from_the_begin_of_the_request(scene):
    assert scene.turn() == PARKED
    scene.begin(limit_ms=20)
    scene.turn(500)
    (sample,) = [s for s in scene.evidence(1).samples if s.role == "request"]
    assert sample.late_ns == 500 * MS


def test_a_look_that_came_too_late_for_the_request_still_shows_the_other_threads(scene, stage):
    """Another thread held the GIL, and the request got it back before the watchdog did."""

    def hold():
        while not stage.done.is_set():
            time.sleep(0.001)

    other = stage.start(hold, name="codec")
    stage.standing(other, "hold", "sleep")
    request = scene.begin(limit_ms=20)
    scene.turn()
    scene.tracker.requests.clear()
    end_ns = request.start_ns + 299 * MS
    scene.turn(300)
    (sample,) = scene.dog.evidence(request, end_ns).samples
    assert (sample.role, sample.thread_name) == ("other", "codec")
    assert sample.late_ns == 280 * MS
    assert sample.weight_ns == 299 * MS
    later = scene.begin(2, limit_ms=20)
    assert scene.dog.evidence(later, scene.clock.now_ns + MS).samples == ()


@pytest.mark.parametrize("ended_ms", [98, 100, 101])
def test_a_look_that_stands_for_time_after_the_end_alone_is_no_sample(scene, ended_ms):
    """A request may have ended before looks that still found it in flight."""
    request = scene.begin(limit_ms=100)
    scene.turn()
    for pause_ms in (50, 50, 2, 2):
        scene.turn(pause_ms)
    samples = scene.dog.evidence(request, request.start_ns + ended_ms * MS).samples
    own = [s.weight_ns for s in samples if s.role == "request"]
    assert own == {98: [98 * MS], 100: [100 * MS], 101: [100 * MS, 1 * MS]}[ended_ms]
    assert all(s.weight_ns > 0 for s in samples)


def test_looks_get_rarer_the_longer_a_request_is_overdue(scene):
    scene.begin(limit_ms=100)
    looks, pause = 0, scene.turn(100)
    while scene.clock.now_ns < scene.tracker.requests[0].deadline_ns + 10_000 * MS:
        assert 1 <= pause <= 50  # the longest that another request would have to wait for its own first look
        before = len(scene.dog._looks._looks)
        pause = scene.turn(pause)
        looks += len(scene.dog._looks._looks) > before
    assert 100 < looks < 400
    samples = scene.evidence(1).samples
    assert sum(s.weight_ns for s in samples if s.role == "request") >= 9_700 * MS  # the last look is up to 250 ms ago
    assert len(samples) <= 96


def test_a_new_overdue_request_is_looked_at_on_time_beside_an_old_one(scene):
    scene.begin(1, limit_ms=10)
    scene.turn(10)
    scene.turn(20_000)
    scene.begin(2, limit_ms=7)
    assert scene.turn(0.5) == pytest.approx(6.5)
    scene.turn(6.5)
    assert [s.late_ns for s in scene.evidence(2).samples if s.role == "request"] == [0]


def test_beside_a_slow_request_it_wakes_for_the_deadline_that_a_quick_one_would_have(scene):
    """The quick route is asked between two turns, so no turn has ever seen one of its requests."""
    scene.begin(1, limit_ms=5_000)
    assert scene.turn() == 50
    scene.tracker.shortest_ns = 12 * MS
    assert scene.turn(50) == 12
    scene.begin(2, limit_ms=12)
    scene.turn(12)
    assert [s.late_ns for s in scene.evidence(2).samples if s.role == "request"] == [0]


def test_a_late_look_tells_who_alone_ran_meanwhile_within_a_minute_of_another_one(scene, monkeypatch):
    """Before that no times are read: it costs something with each wake."""
    own, ran_ns = threading.get_ident(), [0]
    monkeypatch.setattr(scene.dog, "_cpu", CpuTimes(lambda _native_id: ran_ns[0], lambda: (own,)))
    scene.dog._frames = lambda: {own: sys._getframe()}

    def late_look(request_id):
        scene.begin(request_id, limit_ms=20)
        assert scene.turn() == 20
        ran_ns[0] += 55 * MS
        scene.turn(60)  # 40 ms late
        (sample,) = [s for s in scene.evidence(request_id).samples if s.role == "request"]
        scene.tracker.requests.clear()
        scene.turn(2)
        assert sample.late_ns == 40 * MS
        return sample.ran_ns

    assert late_look(1) == 0
    assert late_look(2) == 35 * MS


def test_looking_stays_inside_its_budget(scene):
    """With looks that cost 1 ms each, a request that is overdue for minutes costs less than 1 % of a core."""
    scene.begin(limit_ms=100)
    pause, looks, begun = scene.turn(100), 0, scene.clock.now_ns
    while scene.clock.now_ns < begun + 120_000 * MS:
        scene.clock.cpu += 1 * MS
        looks += 1
        pause = scene.turn(pause)
        # Each second another one becomes overdue, so that age alone does not slow the watchdog down.
        scene.tracker.requests[0].deadline_ns = scene.clock.now_ns - scene.clock.now_ns % (1000 * MS)
    assert looks < 120_000 * 0.01


@pytest.mark.parametrize(("cost_us", "turns_a_second"), [(20, 100), (80, 37.5), (1000, 20)])
def test_while_nothing_is_overdue_it_wakes_for_each_deadline_unless_that_is_dear(scene, cost_us, turns_a_second):
    """A service in which a request of 10 ms at most is always in flight; 37 wakes of 80 us are 0.3 % of a core."""
    turns, pause, warm = 0, 10, scene.clock.now_ns + 1_000 * MS
    while scene.clock.now_ns < warm + 4_000 * MS:
        scene.clock.now_ns += round(pause * MS)
        scene.clock.cpu += cost_us * 1000
        scene.tracker.requests.clear()
        scene.begin(limit_ms=10)
        pause = scene.turn()
        turns += scene.clock.now_ns >= warm
    assert turns / 4 == pytest.approx(turns_a_second, rel=0.1)


def test_within_a_minute_of_an_overdue_request_it_wakes_more_often_where_that_is_dear(scene):
    def turns_a_second(seconds, pause):
        turns, until = 0, scene.clock.now_ns + seconds * 1_000 * MS
        while scene.clock.now_ns < until:
            scene.clock.now_ns += round(pause * MS)
            scene.clock.cpu += 160_000
            scene.tracker.requests.clear()
            scene.begin(limit_ms=10)
            pause = scene.turn()
            turns += 1
        return turns / seconds

    turns_a_second(1, 10)
    assert turns_a_second(4, 10) == pytest.approx(20, rel=0.05)
    scene.begin(limit_ms=10)
    scene.turn(20)
    turns_a_second(1, 10)
    assert turns_a_second(4, 10) == pytest.approx(50, rel=0.05)
    turns_a_second(60, 10)
    assert turns_a_second(4, 10) == pytest.approx(20, rel=0.05)


def test_what_a_noisy_neighbour_adds_to_a_wake_makes_it_wake_no_seldomer(scene):
    turns, pause = 0, 10
    until = scene.clock.now_ns + 4_000 * MS
    while scene.clock.now_ns < until:
        scene.clock.now_ns += round(pause * MS)
        scene.clock.cpu += 20_000 if turns // 8 % 4 == 0 else 90_000
        scene.tracker.requests.clear()
        scene.begin(limit_ms=10)
        pause = scene.turn()
        turns += 1
    assert turns / 4 == pytest.approx(100, rel=0.1)


def test_a_dear_look_is_rarer_from_the_start(scene):
    scene.begin(limit_ms=100)
    scene.turn(100)
    pauses = []
    for _ in range(20):
        scene.clock.cpu += 1 * MS
        pauses.append(scene.turn(2))
    assert max(pauses) > 15


def test_a_collection_of_the_hosts_heap_on_this_thread_leaves_the_request_watched(scene):
    scene.begin(limit_ms=100)
    pause = scene.turn(100)
    for _ in range(3):
        scene.clock.cpu += MS // 20
        pause = scene.turn(pause)
    scene.clock.cpu += 300 * MS
    pauses = [scene.turn(pause)]
    for _ in range(5):
        scene.clock.cpu += MS // 20
        pauses.append(scene.turn(pauses[-1]))
    assert max(pauses) <= 4


def test_samples_after_the_end_are_not_the_requests(scene):
    scene.begin(1, limit_ms=10)
    scene.begin(2, limit_ms=10)
    scene.turn(10)
    del scene.tracker.requests[0]
    scene.turn(2)
    scene.turn(2)
    count = {i: len([s for s in scene.evidence(i).samples if s.role == "request"]) for i in (1, 2)}
    assert count == {1: 1, 2: 3}


def test_an_idle_request_is_explained_by_the_threads_of_units_and_a_busy_one_is_not(scene, stage):
    waiting = stage.start(stage.done.wait, name="http-1")

    def work():
        while not stage.done.is_set():
            time.sleep(0.001)

    unit = stage.start(work, name="batcher")
    stage.standing(waiting, "wait", "acquire")
    stage.standing(unit, "work", "sleep")
    scene.tracker.units = {unit.ident}
    scene.begin(1, ident=waiting.ident, limit_ms=10)
    scene.begin(2, limit_ms=10)
    scene.begin(3, limit_ms=10, is_async=True)
    scene.turn(10)
    roles = {i: {(s.role, s.thread_name) for s in scene.evidence(i).samples if s.role != "other"} for i in (1, 2, 3)}
    assert roles == {
        1: {("request", "http-1"), ("unit", "batcher")},
        2: {("request", "MainThread")},
        3: {("request", "MainThread"), ("unit", "batcher")},
    }
    (of_unit,) = [s for s in scene.evidence(1).samples if s.role == "unit"]
    assert of_unit.weight_ns == 10 * MS
    assert of_unit.frames[0].callee == "sleep"


def test_other_threads_are_looked_at_less_often_and_the_agents_own_never(scene, stage):
    other = stage.start(stage.done.wait, name="logger")
    own = stage.start(stage.done.wait, name="midwatch-other")
    stage.until(lambda: {other.ident, own.ident} <= set(sys._current_frames()))
    scene.begin(limit_ms=10)
    scene.turn(10)
    for _ in range(19):
        scene.turn(2)
    samples = scene.evidence(1).samples
    of = {name: [s for s in samples if s.thread_name == name] for name in ("MainThread", "logger", "midwatch-other")}
    assert len(of["MainThread"]) == 20
    assert len(of["logger"]) == 2
    assert not of["midwatch-other"]
    assert {s.role for s in of["logger"]} == {"other"}


def test_names_of_threads_can_be_hidden(scene, own_frames):
    scene.dog = Watchdog(scene.tracker, Stacks(), LockProbe(), scene.clock, redact=True, frames=own_frames)
    scene.begin(limit_ms=10)
    scene.turn(10)
    samples = scene.evidence(1).samples
    assert samples
    assert {s.thread_name for s in samples} == {""}


def test_a_wait_for_a_lock_with_its_holder(scene, stage):
    lock, held = threading.Lock(), threading.Event()

    def hold():
        with lock:
            held.set()
            stage.done.wait()

    def wait():
        with lock:
            pass

    holder = stage.start(hold, name="reloader")
    held.wait()
    waiter = stage.start(wait)
    stage.standing(waiter, "wait", "__enter__")
    scene.begin(1, ident=waiter.ident, limit_ms=10)
    scene.begin(2, limit_ms=10)
    scene.turn(10)
    for _ in range(5):
        scene.turn(2)
    (seen,) = scene.evidence(1).locks
    assert seen.lock == "Lock lock"
    assert seen.duration_ns == 20 * MS
    assert seen.thread_id == waiter.native_id
    assert seen.waiter[0].callee == "__enter__"
    assert (seen.holder_thread_name, seen.holder_thread_id) == ("reloader", holder.native_id)
    assert any(frame.function.endswith("hold") for frame in seen.holder)
    assert scene.evidence(2).locks == ()


def test_an_open_step_is_given_up_when_it_is_ten_seconds_overdue(scene):
    step, other = scene.begin(1, limit_ms=10), scene.begin(2, limit_ms=10)
    step.open_end = True
    scene.turn(10)
    scene.turn(9_990)
    assert scene.tracker.requests == [step, other]
    assert any(sample.role == "request" for sample in scene.evidence(1).samples)
    scene.turn(260)
    assert scene.tracker.requests == [other]


def test_nothing_was_seen_of_an_unknown_request(scene):
    request = Request(77, threading.get_ident(), scene.clock.now_ns, scene.clock.now_ns + 1)
    evidence = scene.dog.evidence(request, scene.clock.now_ns)
    assert (evidence.samples, evidence.locks) == ((), ())


def test_no_frame_is_kept(scene, stage):
    """What a function lets go while it is watched is gone when it ends."""
    import gc
    import weakref

    class Payload:
        pass

    ready, seen = threading.Event(), []

    def serve():
        payload = Payload()
        seen.append(weakref.ref(payload))
        ready.set()
        stage.done.wait()

    thread = stage.start(serve)
    ready.wait()
    scene.begin(ident=thread.ident, limit_ms=10)
    scene.turn(10)
    scene.turn(2)
    stage.finish()
    gc.collect()
    assert scene.evidence(1).samples
    assert seen[0]() is None
