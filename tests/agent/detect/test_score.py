"""The score of the detection bench on series small enough to count by hand."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from series.rules import RULES, ceiling, noise_limit
from series.scenarios import NO_SHAPES, SCENARIOS
from series.score import PER_HOUR, SHIFT_REQUESTS, TOLD_REQUESTS, Score, poisson_interval, score
from series.values import CLUSTER, SHIFT, SINGLE, SPIKE, TAIL, Answer, Label, Series


def series_of(latencies_ms, *labels, step_s=0.01, level_ms=10.0):
    count = len(latencies_ms)
    at_us = (np.arange(1, count + 1) * step_s * 1e6).astype(np.int64)
    latency_us = (np.array(latencies_ms) * 1000).astype(np.int64)
    return Series("by hand", at_us, latency_us, np.full(count, level_ms), NO_SHAPES, labels)


def flagged(count, *indices, told=None):
    flags = np.zeros(count, dtype=bool)
    flags[list(indices)] = True
    return Answer(flags, told)


def spike(index, pattern=SINGLE):
    return Label(SPIKE, index, index, pattern)


def test_found_missed_and_false():
    series = series_of([10.0] * 20, spike(3), spike(7), spike(8, CLUSTER))
    counted = score(series, flagged(20, 3, 8, 9, 15))
    assert (counted.spikes, counted.found, counted.false_alarms, counted.requests) == (3, 2, 2, 20)
    assert counted.recall == pytest.approx(2 / 3)
    assert counted.patterns == {SINGLE: (1, 2), CLUSTER: (1, 1)}


def test_the_request_beside_a_spike_is_a_false_alarm():
    counted = score(series_of([10.0] * 20, spike(3)), flagged(20, 2, 4))
    assert (counted.found, counted.false_alarms) == (0, 2)


def test_a_slow_request_without_a_label_is_a_false_alarm():
    counted = score(series_of([10.0] * 10 + [900.0]), flagged(11, 10))
    assert (counted.spikes, counted.false_alarms) == (0, 1)
    assert math.isnan(counted.recall)


def test_flags_within_a_tail_are_of_the_tail_but_a_spike_there_counts():
    series = series_of([10.0] * 100, Label(TAIL, 10, 19), spike(15))
    counted = score(series, flagged(100, 9, 10, 15, 19, 20))
    assert (counted.found, counted.false_alarms) == (1, 2)


def test_the_first_requests_after_a_shift_are_of_the_shift_and_the_next_is_not():
    series = series_of([10.0] * 2000, Label(SHIFT, 1000, 1999))
    last = 1000 + SHIFT_REQUESTS - 1
    assert score(series, flagged(2000, 1000, last)).false_alarms == 0
    assert score(series, flagged(2000, 999, last + 1)).false_alarms == 2


def test_a_rule_that_tells_no_events_finds_none_and_is_not_blamed_for_them():
    counted = score(series_of([10.0] * 100, Label(TAIL, 10, 19)), flagged(100, 12))
    assert not counted.tells
    assert counted.events == {TAIL: (0, 1)}
    assert counted.false_alarms == 0


def test_events_are_found_by_kind_and_in_time():
    count = 20_000
    series = series_of([10.0] * count, Label(TAIL, 100, 199), Label(SHIFT, 5000, 12_000))

    def told(*events):
        counted = score(series, flagged(count, told=events))
        assert counted.tells
        return counted.events[TAIL][0], counted.events[SHIFT][0], counted.false_alarms

    assert told() == (0, 0, 0)
    assert told((TAIL, 199), (SHIFT, 5000 + TOLD_REQUESTS - 1)) == (1, 1, 0)
    assert told((TAIL, 150), (TAIL, 160)) == (1, 0, 0)
    assert told((SHIFT, 5000 + TOLD_REQUESTS)) == (0, 0, 0), "too late, but a shift there was"
    assert told((SHIFT, 12_001)) == (0, 0, 0), "the level fell back"
    assert told((TAIL, 200), (SHIFT, 150), (SHIFT, 4999)) == (0, 0, 3)


def test_recall_by_size_and_of_clear_spikes():
    series = series_of([10.0] * 10, spike(1), spike(2), spike(3))
    bars = np.array([0.3, 1.2, 1.4, 12.0] + [0.3] * 6)
    counted = score(series, flagged(10, 1, 3), clear=bars > 1.3, bars=bars)
    assert (counted.clear, counted.clear_found, counted.clear_recall) == (2, 1, 0.5)
    assert counted.patterns["1 to 1.5 bars"] == (1, 2)
    assert counted.patterns["over 10 bars"] == (1, 1)


def test_scores_add_up():
    series = series_of([10.0] * 20, spike(3), Label(TAIL, 10, 12))
    total = Score()
    total.add(score(series, flagged(20, 3, 5)))
    total.add(score(series, flagged(20, 6, told=((TAIL, 11),))))
    total.add(score(series_of([10.0] * 5), flagged(5, 1, 2, 3)))
    assert (total.spikes, total.found, total.false_alarms, total.in_healthy, total.requests) == (2, 1, 5, 3, 45)
    assert total.patterns == {SINGLE: (1, 2)}
    assert total.events == {TAIL: (1, 2)}
    assert total.tells


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 3.689), (1, 0.025, 5.572), (10, 4.795, 18.39), (100, 81.36, 121.63)]
)
def test_the_interval_is_that_of_poisson(count, low, high):
    assert poisson_interval(count) == pytest.approx((low, high), rel=0.01, abs=0.015)


def test_alarms_are_counted_for_an_hour_at_a_hundred_requests_a_second():
    counted = Score(false_alarms=10, requests=2 * PER_HOUR)
    assert counted.alarms_an_hour == pytest.approx((5.0, 4.795 / 2, 18.39 / 2), rel=0.01)


class TestRules:
    @pytest.mark.parametrize("name", RULES)
    def test_each_finds_an_extreme_spike_in_a_quiet_series_and_only_it(self, name):
        latencies_ms = [10.0 + number % 7 / 10 for number in range(4000)]
        latencies_ms[3600] = 500.0
        answer = RULES[name](series_of(latencies_ms, step_s=0.1))
        assert np.flatnonzero(answer.flags).tolist() == [3600]

    @pytest.mark.parametrize("name", RULES)
    def test_each_judges_from_earlier_requests_alone(self, name):
        generator = np.random.Generator(np.random.PCG64(3))
        latencies_ms = np.exp(0.6 * generator.standard_normal(6000)) * 10
        latencies_ms[[4000, 5500]] = 2000.0
        whole = RULES[name](series_of(latencies_ms, step_s=0.1)).flags
        part = RULES[name](series_of(latencies_ms[:4505], step_s=0.1)).flags
        assert whole.any()
        assert (whole[:4505] == part).all()

    def test_the_ceiling_is_over_one_healthy_request_an_hour(self):
        exact = math.exp(0.3 * NormalDist().inv_cdf(1 - 1 / PER_HOUR))
        low_traffic = next(scenario for scenario in SCENARIOS if scenario.name == "low-traffic")
        assert noise_limit(low_traffic) == pytest.approx(exact, rel=0.05)

    def test_the_ceiling_flags_what_is_over_its_limit(self):
        series = series_of([10.0, 20.0, 20.1, 400.0])
        assert ceiling(series, 2.0).tolist() == [False, False, True, True]
