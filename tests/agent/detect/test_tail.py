"""How far noise strays, held against distributions whose tail is known."""

import math
import random
from statistics import NormalDist

import pytest
from midwatch.detect import tail as tail_module
from midwatch.detect.tail import ALARM, BLOCK, Tail

NORMAL = NormalDist()


def learnt(ratios):
    tail = Tail()
    for ratio in ratios:
        tail.add(math.log(ratio))
    return tail


def lognormal(count, sigma, seed=1):
    generator = random.Random(seed)
    return [generator.lognormvariate(0.0, sigma) for _ in range(count)]


@pytest.mark.parametrize("share", [0.25, 0.15, 0.04, 0.002, ALARM])
def test_the_approximations_are_as_good_as_they_say(share):
    exact = NORMAL.inv_cdf(1.0 - share)
    assert tail_module._deviate(share) == pytest.approx(exact, abs=4.5e-4)
    assert tail_module._hazard(exact) == pytest.approx(NORMAL.pdf(exact) / share, rel=0.02)


@pytest.mark.parametrize("sigma", [0.12, 0.3, 0.6])
@pytest.mark.parametrize("blocks", [10, 24])
def test_a_lognormal_is_followed_out_to_one_in_an_hour(sigma, blocks):
    limits = [learnt(lognormal(blocks * BLOCK, sigma, seed)).limit for seed in range(4)]
    exact = sigma * NORMAL.inv_cdf(1.0 - ALARM)
    assert sum(limits) / 4 == pytest.approx(exact * 1.02, rel=0.06), "a little beyond it, by its standard error"


@pytest.mark.parametrize("count", [200, 500, 2_000, 5_000])
def test_of_few_requests_the_limit_is_rather_too_far(count):
    exact = 0.3 * NORMAL.inv_cdf(1.0 - ALARM)
    limits = sorted(learnt(lognormal(count, 0.3, seed)).limit for seed in range(40))
    assert limits[2] > 0.85 * exact
    assert limits[20] > exact


def test_of_two_kinds_of_requests_it_lies_beyond_the_slower_kind():
    generator = random.Random(4)
    ratios = [(7.0 if generator.random() < 1 / 7 else 1.0) * generator.lognormvariate(0.0, 0.12) for _ in range(60_000)]
    slow_share = ALARM * 7
    exact = math.log(7.0) + 0.12 * NORMAL.inv_cdf(1.0 - slow_share)
    assert exact - 0.05 < learnt(ratios).limit < exact + 0.25


def test_a_fault_that_came_and_went_in_some_blocks_does_not_count():
    ratios = lognormal(24 * BLOCK, 0.3)
    clean = learnt(ratios).limit
    for number in range(3 * BLOCK, 9 * BLOCK, 30):
        ratios[number] = 2.9
    assert learnt(ratios).limit == pytest.approx(clean, rel=0.05)


def test_what_a_service_does_at_its_start_is_forgotten():
    wild = lognormal(1_000, 1.5)
    assert learnt(wild + lognormal(1_000, 0.2)).limit > 2.0
    assert learnt(wild + lognormal(5_000, 0.2)).limit == pytest.approx(0.2 * NORMAL.inv_cdf(1.0 - ALARM), rel=0.25)


def test_it_is_worked_out_seldom():
    tail = Tail()
    assert sum(tail.add(0.0) for _ in range(20 * BLOCK)) < 200


def test_equal_latencies_have_no_tail():
    assert learnt([1.0] * 10_000).limit == pytest.approx(0.0, abs=0.02)
