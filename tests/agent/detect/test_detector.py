import math
import random

import pytest
from midwatch.detect.detector import Event, RouteDetector, Verdict
from midwatch.detect.replay import replay

MS = 1_000_000


def steady(detector, count, latency_ms=5.0, **rest):
    return [detector.judge(int(latency_ms * MS), **rest).verdict for _ in range(count)]


def test_the_warm_up_is_silent_and_leaves_no_trace():
    detector = RouteDetector(warmup=20)
    assert detector.limit_ns == 0
    assert set(steady(detector, 20, 5000)) == {Verdict.WARMUP}
    assert detector.baseline().requests == 0
    assert detector.limit_ns == 250 * MS


def test_a_slow_request_is_a_spike_and_does_not_lift_the_deadline():
    detector = RouteDetector(warmup=0)
    steady(detector, 300)
    limit_ns = detector.limit_ns
    judgement = detector.judge(100 * MS)
    assert (judgement.verdict, judgement.rule, judgement.limit_ns) == (Verdict.SPIKE, "sketch", limit_ns)
    assert detector.baseline().requests == 300
    assert steady(detector, 50) == [Verdict.NORMAL] * 50


def test_one_in_twenty_five_is_found_and_goes_on_being_found():
    generator = random.Random(3)
    latencies = [generator.gauss(5, 0.4) if number % 25 else 80.0 for number in range(20_000)]
    flags = [judgement.verdict is Verdict.SPIKE for judgement in replay(latencies)]
    slow = [latency > 50 for latency in latencies]
    # Before a route has a deadline of its own, 80 ms of the low-traffic rule's 250 are no spike.
    assert sum(flags[300:]) == sum(slow[300:])
    assert flags[300:] == slow[300:]


def test_a_route_that_is_always_over_its_slo_gets_a_deadline_of_its_own():
    judged = replay([100.0] * 400, slo_ms=40.0)
    assert [one.rule for one in judged[20:220]] == ["slo"] * 200
    assert {one.verdict for one in judged[220:]} == {Verdict.NORMAL}


def test_no_latency_leads_to_a_limit_that_is_none():
    generator = random.Random(6)
    detector = RouteDetector(warmup=0)
    for number in range(3_000):
        detector.judge(generator.choice([0, 1, 2**62]), shape=str(number % 7))
        assert 0 < detector.limit_ns <= 86_400 * 10**9


def test_noise_is_not_a_spike():
    generator = random.Random(5)
    latencies = [generator.lognormvariate(1.6, 0.25) for _ in range(20_000)]
    assert not any(judgement.verdict is Verdict.SPIKE for judgement in replay(latencies))


def test_a_route_of_two_kinds_of_requests_is_not_one_long_alarm():
    generator = random.Random(8)
    latencies = [generator.gauss(60, 3) if generator.random() < 0.1 else generator.gauss(5, 0.3) for _ in range(5000)]
    assert sum(judgement.verdict is Verdict.SPIKE for judgement in replay(latencies)) == 0


def test_a_new_level_is_learnt():
    latencies = [5.0] * 1000 + [50.0] * 1000
    verdicts = [judgement.verdict for judgement in replay(latencies)]
    alarms = [number for number, verdict in enumerate(verdicts) if verdict is Verdict.SPIKE]
    assert alarms
    assert max(alarms) < 1210
    assert verdicts[-1] is Verdict.NORMAL


def test_quantiles_follow_the_traffic_over_two_generations():
    detector = RouteDetector(warmup=0)
    steady(detector, 6_000, 10)
    steady(detector, 14_000, 12)
    assert detector.baseline().p50_ms == pytest.approx(12, rel=0.02)


def test_a_request_that_met_a_window_teaches_nothing_and_is_no_spike():
    detector = RouteDetector(warmup=0)
    steady(detector, 300)
    assert detector.judge(900 * MS, in_window=True).verdict is Verdict.WINDOW
    assert detector.baseline().requests == 300


class TestShapes:
    def test_the_first_of_a_new_shape_are_kept_out_of_the_noise(self):
        detector = RouteDetector(warmup=5)
        steady(detector, 300, shape="a")
        known = detector.baseline().requests
        assert steady(detector, 3, 6, shape="b") == [Verdict.NEW_SHAPE] * 3
        assert detector.baseline().requests == known
        assert steady(detector, 1, 6, shape="b") == [Verdict.NORMAL]

    def test_each_shape_is_held_against_its_own(self):
        detector = RouteDetector(warmup=0)
        for _ in range(300):
            steady(detector, 4, 5, shape="small")
            steady(detector, 1, 50, shape="large")
        assert detector.judge(20 * MS, shape="small").verdict is Verdict.SPIKE
        assert detector.judge(100 * MS, shape="large").verdict is Verdict.NORMAL
        assert detector.judge(160 * MS, shape="large").verdict is Verdict.SPIKE
        assert detector.baseline("large").p50_ms == pytest.approx(50, rel=0.05)
        assert detector.baseline("small").p50_ms == pytest.approx(5, rel=0.05)
        assert detector.limit_ns / MS == pytest.approx(150, rel=0.05), "in flight nobody knows the shape"

    def test_the_second_of_a_new_shape_is_held_against_the_dearest(self):
        detector = RouteDetector(warmup=5)
        steady(detector, 300, shape="a")
        assert steady(detector, 2, 6, shape="b") == [Verdict.NEW_SHAPE] * 2
        judgement = detector.judge(500 * MS, shape="b")
        assert (judgement.verdict, judgement.rule) == (Verdict.SPIKE, "sketch")

    def test_a_new_shape_that_is_dear_is_silent_from_the_start(self):
        detector = RouteDetector(warmup=5)
        steady(detector, 300, 20, shape="8")
        assert Verdict.SPIKE not in steady(detector, 20, 160, shape="64")
        late = RouteDetector(warmup=5)
        steady(late, 300, 20, shape="8")
        late.judge(160 * MS, shape="64", in_window=True)
        assert Verdict.SPIKE not in steady(late, 20, 160, shape="64")

    def test_one_that_compiles_blinds_nobody_and_its_own_latency_is_not_usual(self):
        detector = RouteDetector(warmup=5)
        steady(detector, 300, 20, shape="8")
        detector.judge(30_000 * MS, shape="9")
        steady(detector, 100, 20, shape="8")
        assert detector.limit_ns / MS == pytest.approx(60, rel=0.05)
        assert detector.baseline("9").p50_ms == pytest.approx(20, rel=0.05)

    @pytest.mark.parametrize("slo_ms", [0.0, 50.0])
    @pytest.mark.parametrize("cheap", [0.0, 0.02])
    def test_a_dear_shape_that_follows_a_cheap_beginning_is_no_endless_alarm(self, cheap, slo_ms):
        generator = random.Random(7)
        detector = RouteDetector(slo_ms=slo_ms)
        for _ in range(30):
            detector.judge(int(20 * MS * generator.lognormvariate(0, 0.2)), shape="a")
        verdicts = []
        for _ in range(5_000):
            shape = "a" if generator.random() < cheap else "b"
            cost_ms = {"a": 20, "b": 600}[shape]
            verdicts.append(detector.judge(int(cost_ms * MS * generator.lognormvariate(0, 0.2)), shape=shape).verdict)
        assert Verdict.SPIKE not in verdicts[400:]

    def test_slow_first_requests_are_told_where_they_recur(self):
        detector = RouteDetector(warmup=5)
        steady(detector, 300, shape="a")
        told = []
        for shape in "bcdef":
            steady(detector, 100, shape="a")
            judgement = detector.judge(16 * MS, shape=shape)
            told.append((judgement.verdict, judgement.rule))
        assert told == [(Verdict.NEW_SHAPE, "")] * 2 + [(Verdict.SPIKE, "new_shape")] * 3
        steady(detector, 1000, shape="a")
        assert detector.judge(16 * MS, shape="g").verdict is Verdict.NEW_SHAPE

    def test_a_route_whose_shapes_all_come_in_the_warm_up_learns_each(self):
        detector = RouteDetector(warmup=20)
        costs_ms = {"a": 100, "b": 10, "c": 30, "d": 60}
        shapes = ["a", *"bcd" * 400, *"abcd" * 200]
        verdicts = [detector.judge(int(costs_ms[shape] * MS), shape=shape).verdict for shape in shapes]
        assert Verdict.SPIKE not in verdicts
        for shape, cost_ms in costs_ms.items():
            assert detector.baseline(shape).p50_ms == pytest.approx(cost_ms, rel=0.1)

    def test_shapes_of_the_warm_up_are_known(self):
        detector = RouteDetector(warmup=5)
        steady(detector, 5, shape="a")
        assert steady(detector, 1, shape="a") == [Verdict.NORMAL]

    def test_a_service_of_endless_shapes_gets_a_deadline_all_the_same(self):
        detector = RouteDetector(warmup=0)
        for number in range(1000):
            detector.judge(5 * MS, shape=str(number))
        assert detector.rule == "sketch"
        assert detector.baseline().requests > 700
        assert detector.judge(50 * MS, shape="one more").verdict is Verdict.SPIKE


class TestEvents:
    def test_a_new_level_is_told_once_and_what_it_was_before_is_not_missed(self):
        generator = random.Random(2)
        latencies = [generator.lognormvariate(1.6, 0.2) * (3.5 if 10_000 <= n < 20_000 else 1) for n in range(30_000)]
        judged = replay(latencies)
        events = [(number, one.event) for number, one in enumerate(judged) if one.event is not None]
        assert [event for _, event in events] == [Event.SHIFT]
        assert 10_000 < events[0][0] < 10_400
        spikes = [number for number, one in enumerate(judged) if one.verdict is Verdict.SPIKE]
        assert all(10_000 <= number < 10_300 for number in spikes)

    @pytest.mark.parametrize("shapes", [2, 4, 8])
    def test_a_new_level_of_all_shapes_is_told(self, shapes):
        generator = random.Random(5)
        detector = RouteDetector()
        events = []
        for number in range(20_000):
            latency_ms = 30 * generator.lognormvariate(0, 0.2) * (3 if number >= 10_000 else 1)
            shape = generator.randrange(shapes)
            events.append(detector.judge(int(latency_ms * (1 + shape) * MS), shape=str(shape)).event)
        assert [event for event in events if event] == [Event.SHIFT]

    def test_a_short_fault_silences_nobody(self):
        generator = random.Random(8)
        detector = RouteDetector()
        for number in range(40_000):
            slow = 30_000 <= number < 31_500 and generator.random() < 0.1
            detector.judge(int((300 if slow else 30 * generator.lognormvariate(0, 0.2)) * MS))
        assert detector.limit_ns / MS == pytest.approx(90, rel=0.1)
        assert detector.judge(150 * MS).verdict is Verdict.SPIKE

    def test_a_rising_tail_is_told(self):
        generator = random.Random(3)
        latencies = []
        for number in range(60_000):
            noise = generator.gauss(0.0, 0.2)
            risen = 1.0 + 2.5 * max(0, number - 45_000) / 12_000
            latencies.append(math.exp(2.5 + (noise * risen if noise > 0 else noise)))
        events = [(number, one.event) for number, one in enumerate(replay(latencies)) if one.event is not None]
        assert events[0][1] is Event.TAIL
        assert 46_000 < events[0][0] < 57_000

    def test_a_kind_of_requests_that_comes_later_is_learnt(self):
        generator = random.Random(4)
        latencies = [generator.gauss(5, 0.3) for _ in range(10_000)]
        latencies += [
            generator.gauss(60, 3) if generator.random() < 0.15 else generator.gauss(5, 0.3) for _ in range(10_000)
        ]
        alarms = [number for number, one in enumerate(replay(latencies)) if one.verdict is Verdict.SPIKE]
        assert alarms
        assert max(alarms) < 13_000


def test_the_same_latencies_give_the_same_answers():
    generator = random.Random(1)
    latencies = [generator.expovariate(1 / 20) for _ in range(3000)]
    assert replay(latencies) == replay(latencies)
