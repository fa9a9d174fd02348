import pytest
from midwatch.detect.deadline import OWN, Deadline, baseline, deadline
from midwatch.requests.sketch import Sketch

MS = 1_000_000


def sketch_of(*groups):
    sketch = Sketch()
    for count, latency_ms in groups:
        for _ in range(count):
            sketch.add(int(latency_ms * MS))
    return sketch


@pytest.mark.parametrize(
    ("groups", "expected_ms", "why"),
    [
        (((200, 100),), 300, "three times the median"),
        (((200, 2),), 12, "the median and ten milliseconds"),
        (((180, 10), (20, 100)), 150, "one and a half times the 95th percentile, of two kinds of requests"),
        (((196, 10), (4, 100)), 30, "a fault of one in fifty does not hide itself"),
    ],
)
def test_a_route_of_its_own(groups, expected_ms, why):
    limit = deadline(sketch_of(*groups), slo_ms=1.0)
    assert limit.rule == "sketch"
    assert limit.limit_ns / MS == pytest.approx(expected_ms, rel=0.02), why


def test_low_traffic():
    assert deadline(Sketch(), 0.0) == Deadline(250 * MS, "low_traffic")
    assert deadline(sketch_of((OWN - 1, 5)), 0.0) == Deadline(250 * MS, "low_traffic")
    assert deadline(sketch_of((10, 100)), 0.0).limit_ns / MS == pytest.approx(1000, rel=0.02)
    assert deadline(sketch_of((OWN - 1, 5)), 40.0) == Deadline(40 * MS, "slo")


def test_the_baseline_is_in_milliseconds():
    known = baseline(sketch_of((90, 10), (10, 50)))
    assert known.requests == 100
    assert known.p50_ms == pytest.approx(10, rel=0.02)
    assert known.p99_ms == pytest.approx(50, rel=0.02)
