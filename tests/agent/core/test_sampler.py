import itertools
import threading

from midwatch.manners import LEISURE_S, REST_S, AtLeisure
from midwatch.model.status import Part
from midwatch.sampler import Chore, Sampler
from midwatch.senses import SensorRack


def no_pause(_seconds):
    """Nothing is ever in flight."""
    return True


class Sensor:
    def __init__(self, name="s", period_s=1.0, *, breaks=False):
        self.name, self.period_s, self.breaks = name, period_s, breaks
        self.ticks = []
        self.state = "off"

    def start(self):
        if self.breaks:
            raise OSError("no such thing")
        self.state = "on"

    def stop(self):
        self.state = "off"

    def status(self):
        return Part(self.name, self.state)

    def tick(self, now_ns):
        self.ticks.append(now_ns)


def test_everything_has_its_own_rate(clock):
    fast, slow, never = Sensor("fast", 0.2), Sensor("slow", 2.0), Sensor("never", 0.0)
    digests, seconds = [], []
    sampler = Sampler(
        clock,
        wake=threading.Event(),
        give_way=AtLeisure(clock, lambda: False, no_pause),
        digest=lambda _give_way: digests.append(1) or 0,
        chores=[Chore("count", 1.0, seconds.append)],
        sensors=[fast, slow, never],
    )
    stop = threading.Event()
    begin = clock.perf_ns()

    class Enough(threading.Event):
        def is_set(self):
            return clock.perf_ns() - begin >= 10_000_000_000

    del stop
    sampler.run(Enough())
    assert (len(seconds), len(fast.ticks), len(slow.ticks), never.ticks) == (11, 51, 6, [])
    assert len(digests) >= 40


def test_a_sensor_that_finds_something_to_read_is_ticked_faster_from_then_on(clock):
    class Finder(Sensor):
        def tick(self, now_ns):
            super().tick(now_ns)
            self.period_s = 0.2 if len(self.ticks) > 3 else 1.0

    finder = Finder()
    sampler = Sampler(
        clock,
        wake=threading.Event(),
        give_way=AtLeisure(clock, lambda: False, no_pause),
        digest=lambda _give_way: 0,
        chores=[],
        sensors=[finder],
    )
    begin = clock.perf_ns()

    class Enough(threading.Event):
        def is_set(self):
            return clock.perf_ns() - begin >= 5_000_000_000

    sampler.run(Enough())
    assert [round((at_ns - begin) / 1e9, 1) for at_ns in finder.ticks] == [
        *(0.0, 1.0, 2.0, 3.0),
        *(3.2, 3.4, 3.6, 3.8, 4.0, 4.2, 4.4, 4.6, 4.8, 5.0),
    ]


def test_requests_are_taken_in_before_many_wait_and_once_a_second_where_few_come(clock):
    rate, turns = [100], []

    def digest(_give_way):
        since_s = (clock.perf_ns() - turns[-1]) / 1e9 if turns else 0.0
        turns.append(clock.perf_ns())
        return round(rate[0] * since_s)

    sampler = Sampler(
        clock,
        wake=threading.Event(),
        give_way=AtLeisure(clock, lambda: False, no_pause),
        digest=digest,
        chores=[],
        sensors=[],
    )
    begin = clock.perf_ns()

    class Enough(threading.Event):
        def is_set(self):
            rate[0] = 100 if clock.perf_ns() - begin < 5_000_000_000 else 40_000
            return clock.perf_ns() - begin >= 10_000_000_000

    sampler.run(Enough())
    slow = [b - a for a, b in itertools.pairwise(turns) if b - begin < 5_000_000_000][2:]
    fast = [b - a for a, b in itertools.pairwise(turns) if b - begin > 6_000_000_000]
    assert {round(period / 1e9, 2) for period in slow} == {1.0}
    assert {round(period / 1e9, 2) for period in fast} == {0.1}


def test_an_overdue_request_is_digested_at_once(clock):
    wake, stop = threading.Event(), threading.Event()
    turns = []
    sampler = Sampler(
        clock,
        wake=wake,
        give_way=AtLeisure(clock, wake.is_set, no_pause),
        digest=lambda _give_way: turns.append(clock.perf_ns()) or stop.set() or 1,
        chores=[],
        sensors=[],
    )
    wake.set()
    sampler.run(stop)
    assert turns == [clock.perf_ns()]
    assert not wake.is_set()


def test_who_waits_for_a_request_that_was_overdue_is_not_kept_waiting(clock):
    wake, stop = threading.Event(), threading.Event()
    rests = []

    def digest(give_way):
        clock.advance(0.001)
        give_way()
        rests.append(clock.slept[-1])
        if len(rests) == 2:
            stop.set()
        return 1

    give_way = AtLeisure(clock, wake.is_set, no_pause)
    wake.set()
    Sampler(clock, wake=wake, give_way=give_way, digest=digest, chores=[], sensors=[]).run(stop)
    assert rests == [REST_S, LEISURE_S]


def test_a_task_that_breaks_keeps_no_other_from_its_turn(clock, swallowed):
    seen = []
    sampler = Sampler(
        clock,
        wake=threading.Event(),
        give_way=AtLeisure(clock, lambda: False, no_pause),
        digest=lambda _give_way: 1 / 0,
        chores=[Chore("bad", 1.0, lambda _now: 1 / 0), Chore("good", 1.0, seen.append)],
        sensors=[],
    )
    sampler.turn(clock.perf_ns())
    assert len(seen) == 1
    assert [place for place, _ in swallowed] == ["sampler.digest", "sampler.bad"]
    swallowed.clear()


def test_a_sensor_that_cannot_start_is_off_alone(swallowed):
    good, bad = Sensor("good"), Sensor("bad", breaks=True)
    rack = SensorRack([bad, good])
    rack.start()
    assert rack.ticking() == [good]
    assert rack.status() == [Part("bad", "failed", "could not be started: no such thing"), Part("good", "on")]
    rack.stop()
    assert good.state == "off"
    swallowed.clear()
