import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from midwatch.model.requests import LatencySketch
from midwatch.requests.sketch import ALPHA, Sketch, merged, quantile

latencies = st.lists(st.integers(min_value=1_000, max_value=10**13), min_size=1, max_size=300)


def sketch_of(values):
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


def exact(values, q):
    return sorted(values)[math.floor(q * (len(values) - 1))]


@given(latencies, st.floats(min_value=0, max_value=1))
def test_a_quantile_is_within_one_percent(values, q):
    assert sketch_of(values).quantile(q) == pytest.approx(exact(values, q), rel=ALPHA * 1.0001)


@given(latencies, latencies)
def test_merging_is_the_same_as_having_seen_both(left, right):
    both = sketch_of(left)
    both.merge(sketch_of(right))
    assert both.freeze() == sketch_of(left + right).freeze()
    assert merged(sketch_of(left).freeze(), sketch_of(right).freeze()) == both.freeze()


@given(latencies)
def test_freezing_loses_nothing(values):
    frozen = sketch_of(values).freeze()
    assert Sketch.of(frozen).freeze() == frozen
    assert (frozen.count, frozen.sum_ns, frozen.min_ns, frozen.max_ns) == (
        len(values),
        sum(values),
        min(values),
        max(values),
    )
    assert quantile(frozen, 1.0) == pytest.approx(max(values), rel=ALPHA * 1.0001)


def test_an_empty_sketch_has_quantiles_of_zero():
    assert Sketch().quantiles(0.5, 0.99) == (0.0, 0.0)
    assert merged() == LatencySketch(ALPHA, 0, 0, 0, 0)


def test_a_million_different_latencies_need_few_buckets():
    generator = random.Random(7)
    sketch = sketch_of(int(10 ** generator.uniform(0, 12)) for _ in range(20_000))
    assert len(sketch.buckets) < 1_100


def test_sketches_of_different_precision_do_not_add_up():
    with pytest.raises(ValueError, match="do not add up"):
        Sketch(0.01).merge(Sketch(0.02))
