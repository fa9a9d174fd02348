import math

import pytest
from midwatch.detect.deadline import Deadline, baseline, first_deadline, own_deadline
from midwatch.requests.sketch import Sketch

MS = 1_000_000


def sketch_of(*groups):
    sketch = Sketch()
    for count, latency_ms in groups:
        for _ in range(count):
            sketch.add(int(latency_ms * MS))
    return sketch


@pytest.mark.parametrize(
    ("usual_ms", "tail_times", "expected_ms", "why"),
    [
        (100, 1.5, 300, "three times the usual"),
        (2, 1.5, 12, "ten milliseconds more than usual"),
        (20, 15.3, 306, "the noise of one request in an hour"),
        (20, 0.1, 60, "a route without any noise"),
    ],
)
def test_a_route_of_its_own(usual_ms, tail_times, expected_ms, why):
    limit_ns = own_deadline(usual_ms * MS, math.log(tail_times))
    assert limit_ns / MS == pytest.approx(expected_ms, rel=1e-6), why


def test_a_tail_without_an_end_is_a_number_all_the_same():
    day_ns = 86_400 * 10**9
    assert own_deadline(5 * MS, 1e9) == own_deadline(2.0**62, 0.0) == day_ns
    assert first_deadline(2.0**62, 0.0).limit_ns == first_deadline(0.0, 1e12).limit_ns == day_ns


def test_low_traffic():
    assert first_deadline(0.0, 0.0) == Deadline(250 * MS, "low_traffic")
    assert first_deadline(5 * MS, 0.0) == Deadline(250 * MS, "low_traffic")
    assert first_deadline(100 * MS, 0.0) == Deadline(1000 * MS, "low_traffic")
    assert first_deadline(5 * MS, 40.0) == Deadline(40 * MS, "slo")


def test_the_baseline_is_in_milliseconds():
    known = baseline(sketch_of((90, 10), (10, 50)))
    assert known.requests == 100
    assert known.p50_ms == pytest.approx(10, rel=0.02)
    assert known.p99_ms == pytest.approx(50, rel=0.02)
