"""A replay is the live detector and the live gate, request by request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from midwatch.detect.detector import RouteDetector, Verdict
from midwatch.detect.gate import SpikeGate
from midwatch.detect.replay import RouteReplay, replay

S = 1_000_000_000
LATENCIES = st.lists(
    st.one_of(st.floats(0, 50), st.floats(0, 1e6), st.sampled_from([5.0, 5.1, 90.0, 400.0])), max_size=400
)
SHAPES = st.sampled_from(["", "a", "b", "c"])


@given(LATENCIES, st.integers(0, 30), st.sampled_from([0.0, 40.0, 500.0]))
def test_a_series_is_judged_as_its_requests_are_one_by_one(latencies: list[float], warmup: int, slo_ms: float):
    detector = RouteDetector(warmup=warmup, slo_ms=slo_ms)
    assert replay(latencies, warmup=warmup, slo_ms=slo_ms) == [detector.judge(int(one * 1e6)) for one in latencies]


@given(st.lists(st.tuples(st.floats(0, 500), SHAPES), max_size=300))
def test_with_shapes_too(requests: list[tuple[float, str]]):
    detector = RouteDetector(warmup=5)
    latencies, shapes = [one[0] for one in requests], [one[1] for one in requests]
    expected = [detector.judge(int(latency * 1e6), shape=shape) for latency, shape in requests]
    assert replay(latencies, warmup=5, shapes=shapes) == expected


def test_a_shape_for_each_latency():
    with pytest.raises(ValueError, match="shorter"):
        replay([1.0, 2.0], shapes=["a"])


@given(st.lists(st.tuples(st.sampled_from([5.0, 300.0]), st.integers(0, 20 * S)), max_size=100), st.integers(-S, 2**61))
def test_spikes_are_told_as_the_gate_lets_them_through(steps: list[tuple[float, int]], begin_ns: int):
    """Whatever the clock counts from, a gate of nobody's says the same of the same distances."""
    route, gate = RouteReplay(warmup=0, slo_ms=100), SpikeGate()
    ended_ns, own_ns = begin_ns, 5 * S
    for number, (latency_ms, later_ns) in enumerate(steps):
        if number:
            ended_ns, own_ns = ended_ns + later_ns, own_ns + later_ns
        replayed = route.take(latency_ms, ended_ns=ended_ns)
        spike = replayed.judgement.verdict is Verdict.SPIKE
        assert replayed.told == (gate.admit(own_ns) if spike else None)


def test_a_burst_of_spikes_is_told_three_times_and_then_once_in_ten_seconds():
    route = RouteReplay(warmup=0, slo_ms=100)
    told = [route.take(300.0, ended_ns=number * S).told for number in range(25)]
    assert told[:3] == [True] * 3
    assert told[3:9] == [False] * 6
    assert sum(told) == route.told == 5
    assert route.verdicts[Verdict.SPIKE] == 25


def test_a_clock_that_goes_back_stands_still():
    route = RouteReplay(warmup=0, slo_ms=100)
    assert [route.take(300.0, ended_ns=ended).told for ended in (100 * S, 90 * S, 50 * S, 105 * S, 112 * S)] == [
        True,
        True,
        True,
        False,
        True,
    ]


def test_without_a_time_nobody_knows_what_was_told():
    route = RouteReplay(warmup=0, slo_ms=100)
    replayed = route.take(300.0)
    assert (replayed.judgement.verdict, replayed.told, route.told) == (Verdict.SPIKE, None, 0)


def test_what_each_request_was_held_against_is_counted():
    route = RouteReplay(warmup=10)
    for _ in range(10 + 200 + 50):
        route.take(5.0, shape="known")
    route.take(5.0, shape="new and quick")
    for number in range(3):
        route.take(80.0, shape=f"new and slow {number}")
    route.take(90.0, shape="known")
    assert route.verdicts == {Verdict.WARMUP: 10, Verdict.NORMAL: 250, Verdict.NEW_SHAPE: 3, Verdict.SPIKE: 2}
    assert route.judged_by == {"low_traffic": 200, "sketch": 51, "new_shape": 4}
    assert route.requests == 265
    assert route.max_ms == 90.0
    assert route.all_requests().p50_ms == pytest.approx(5, rel=0.01)
