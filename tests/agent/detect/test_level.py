"""The running median, and what it tells of many requests at once."""

import math
import random

import pytest
from midwatch.detect.level import WINDOW, Level


def run(level, values):
    """Feed it, and return at which values a shift and a tail were told."""
    shifts, tails = [], []
    for number, value in enumerate(values):
        if level.add(value):
            if level.shifted():
                shifts.append(number)
            if level.widened():
                tails.append(number)
    return shifts, tails


def noise(count, sigma=0.2, level_ms=10.0, seed=1):
    generator = random.Random(seed)
    return [math.log(level_ms) + generator.gauss(0.0, sigma) for _ in range(count)]


def test_it_is_the_median_of_the_last_requests():
    level = Level()
    values = noise(5_000)
    run(level, values)
    last = sorted(values[-WINDOW:])
    assert level.median == pytest.approx(last[WINDOW // 2], abs=0.01)
    assert level.spread == pytest.approx(1.645 * 0.2, rel=0.2)


def test_a_new_level_is_followed_after_half_a_window():
    level = Level()
    run(level, noise(2_000))
    run(level, noise(WINDOW // 2 + 40, level_ms=35.0))
    assert math.exp(level.median) == pytest.approx(35.0, rel=0.3)


@pytest.mark.parametrize("sigma", [0.1, 0.6])
def test_a_doubled_level_is_told_once(sigma):
    shifts, tails = run(Level(), noise(20_000, sigma) + noise(20_000, sigma, level_ms=25.0))
    assert len(shifts) == 1
    assert 20_000 < shifts[0] < 21_000
    assert tails == []


def test_a_level_that_falls_or_creeps_or_steps_a_little_is_not():
    falling = noise(20_000, level_ms=25.0) + noise(20_000)
    creeping = [value + number / 40_000 * math.log(4.0) for number, value in enumerate(noise(40_000))]
    stepping = noise(10_000) + noise(10_000, level_ms=17.0)
    for values in (falling, creeping, stepping):
        assert run(Level(), values) == ([], [])


def test_a_wider_slower_half_is_told_and_one_spike_in_twenty_is_not():
    values = noise(60_000)
    middle = math.log(10.0)
    wide = [middle + max(value - middle, 0.0) * 2.5 + min(value - middle, 0.0) for value in noise(10_000, seed=2)]
    assert run(Level(), values + wide)[1]
    generator = random.Random(3)
    spiky = [value + (2.0 if generator.random() < 0.03 else 0.0) for value in noise(60_000, seed=4)]
    assert run(Level(), values + spiky) == ([], [])


def test_a_burst_of_load_is_neither():
    values = noise(30_000)
    for number in range(1_500):
        values[20_000 + number] += math.log(1.0 + 0.8 * (1.0 - abs(number - 750) / 750))
    assert run(Level(), values) == ([], [])
