import random

import pytest
from midwatch.detect.detector import RouteDetector, Verdict
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
    assert max(alarms) < 1150
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
    def test_a_new_shape_is_kept_out_of_the_sketch(self):
        detector = RouteDetector(warmup=5)
        steady(detector, 300, shape="a")
        known = detector.baseline().requests
        assert detector.judge(6 * MS, shape="b").verdict is Verdict.NEW_SHAPE
        assert detector.baseline().requests == known
        assert detector.judge(6 * MS, shape="b").verdict is Verdict.NORMAL

    def test_one_that_costs_over_three_medians_is_told(self):
        detector = RouteDetector(warmup=5)
        steady(detector, 300, shape="a")
        judgement = detector.judge(16 * MS, shape="b")
        assert (judgement.verdict, judgement.rule) == (Verdict.SPIKE, "new_shape")

    def test_shapes_of_the_warm_up_are_known(self):
        detector = RouteDetector(warmup=5)
        steady(detector, 5, shape="a")
        assert steady(detector, 1, shape="a") == [Verdict.NORMAL]

    def test_a_service_of_endless_shapes_gets_a_sketch_all_the_same(self):
        detector = RouteDetector(warmup=0)
        for number in range(1000):
            detector.judge(5 * MS, shape=str(number))
        assert detector.baseline().requests == 1000 - 256


def test_the_same_latencies_give_the_same_answers():
    generator = random.Random(1)
    latencies = [generator.expovariate(1 / 20) for _ in range(3000)]
    assert replay(latencies) == replay(latencies)
