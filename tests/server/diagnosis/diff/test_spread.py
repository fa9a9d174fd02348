"""When a difference between the requests of two windows counts."""

import itertools
import random

import pytest
from midwatch_server.diagnosis.diff import spread
from midwatch_server.diagnosis.diff.spread import chance, sample, status


def by_counting(a, b):
    """The rank-sum test's chance by trying every way to deal the values out."""
    values = [*a, *b]
    observed = sum((y < x) for x in a for y in b)
    middle = len(a) * len(b) / 2
    ways = [
        sum((y < x) for x in mine for y in (v for v in values if v not in mine))
        for mine in itertools.combinations(values, len(a))
    ]
    return sum(abs(w - middle) >= abs(observed - middle) for w in ways) / len(ways)


@pytest.mark.parametrize("seed", range(12))
def test_the_chance_is_the_one_that_counting_gives(seed):
    dice = random.Random(seed)
    values = dice.sample(range(1000), dice.randint(6, 10))
    cut = dice.randint(3, len(values) - 3)
    assert chance(values[:cut], values[cut:]) == pytest.approx(by_counting(values[:cut], values[cut:]))


def test_many_requests_are_approximated_closely(monkeypatch):
    a, b = list(range(0, 40, 2)), list(range(11, 51, 2))
    exact = chance(a, b)
    monkeypatch.setattr(spread, "EXACT", 0)
    assert 0.001 < exact < 0.02
    assert chance(a, b) == pytest.approx(exact, rel=0.2)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ([10.0, 10.1, 9.9, 10.2, 10.0], [8.0, 8.1, 7.9, 8.2, 8.0], "less"),
        ([8.0, 8.1, 7.9, 8.2, 8.0], [10.0, 10.1, 9.9, 10.2, 10.0], "more"),
        ([10.0, 14.0, 9.0, 12.0, 11.0], [9.5, 13.0, 10.5, 8.0, 11.5], "same"),
        ([10.0, 10.0, 10.0], [10.0, 10.0, 10.0], "same"),
        ([10.0] * 5, [9.0] * 5, "less"),
        ([10.0, 10.1, 9.9, 10.2, 10.0], [9.95, 9.96, 9.97, 9.98, 9.94], "same"),  # beyond the spread, under the floor
        ([10.0], [9.8], "same"),  # one request has no spread of its own
        ([10.0], [8.0], "less"),
        ([10.0, 11.0], [10.5, 12.0], "same"),
        ([176.0, 174.0, 177.0, 181.0, 176.5, 164.0], [181.6, 124.0, 127.0, 126.0, 163.0, 116.0], "less"),
    ],
)
def test_a_difference_counts_outside_the_spread(a, b, said):
    assert status(a, b, floor=0.1) == said


def test_a_window_halved_does_not_differ_from_itself():
    dice = random.Random(7)
    called = 0
    for _ in range(200):
        values = [10 + dice.gauss(0, 1) for _ in range(12)]
        called += status(values[::2], values[1::2], floor=0.1) != "same"
    assert called <= 30


def test_the_middle_half():
    shown = sample([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (shown.median, shown.low, shown.high, shown.count) == (3.0, 2.0, 4.0, 5)
