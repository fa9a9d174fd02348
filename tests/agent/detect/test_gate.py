import pytest
from midwatch.detect.gate import SpikeGate
from midwatch.detect.windows import WindowLog

S = 1_000_000_000


def test_three_at_once_and_then_one_in_ten_seconds():
    gate = SpikeGate()
    told = [gate.admit(100 * S + number * S // 10) for number in range(600)]
    assert told[:3] == [True] * 3
    assert sum(told) == pytest.approx(3 + 6, abs=1)
    assert gate.admit(300 * S)


def test_spikes_that_nobody_watched_leave_the_others_their_turns():
    gate = SpikeGate()
    unwatched = [gate.admit(100 * S + number, watched=False) for number in range(5)]
    assert unwatched == [True, False, False, False, False]
    assert [gate.admit(101 * S + number) for number in range(3)] == [True, True, False]
    assert not gate.admit(112 * S, watched=False)
    assert gate.admit(112 * S)
    assert gate.admit(300 * S, watched=False)


def window(gate, now_ns):
    return gate.window_seconds(now_ns, least_s=0.3, most_s=1.0)


def test_a_first_spike_calls_for_no_window_and_a_second_one_does():
    gate = SpikeGate()
    gate.admit(100 * S)
    assert window(gate, 100 * S) == 0.0
    gate.admit(105 * S)
    assert window(gate, 105 * S) == 1.0


def test_two_spikes_far_apart_do_not_recur():
    gate = SpikeGate()
    gate.admit(100 * S)
    gate.admit(400 * S)
    assert window(gate, 400 * S) == 0.0


def test_the_window_is_as_long_as_the_next_spike_is_far():
    gate = SpikeGate()
    for number in range(5):
        gate.admit(100 * S + number * S // 2)
    assert window(gate, 102 * S) == pytest.approx(0.6)


def test_after_a_window_the_route_is_left_alone_for_a_minute():
    gate = SpikeGate()
    for second in range(100, 103):
        gate.admit(second * S)
    assert window(gate, 103 * S) > 0
    assert window(gate, 103 * S) > 0
    gate.window_ordered(103 * S)
    gate.admit(160 * S)
    assert window(gate, 160 * S) == 0.0
    assert window(gate, 164 * S) > 0


def test_requests_that_met_a_window_are_known():
    log = WindowLog()
    assert log.overlapping(0, 10 * S) == ""
    log.begin("first", 20 * S)
    assert log.overlapping(0, 19 * S) == ""
    assert log.overlapping(0, 21 * S) == "first"
    log.end(30 * S)
    log.end(31 * S)
    log.begin("second", 40 * S)
    assert log.overlapping(25 * S, 26 * S) == "first"
    assert log.overlapping(31 * S, 39 * S) == ""
    assert log.overlapping(41 * S, 42 * S) == "second"
