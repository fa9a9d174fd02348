"""What a shape of inputs costs beside the usual one."""

import math
import random

import pytest
from midwatch.detect.shapes import FEW, MOST, Shapes

SPREAD, LEVEL = 0.2 * 1.645, 16.0


def taught(shape, factor, count, seed=1):
    generator = random.Random(seed)
    for _ in range(count):
        shape.learn(LEVEL + factor + generator.gauss(0.0, 0.2), LEVEL, SPREAD)
    return shape


def test_the_first_class_is_the_usual_one():
    shapes = Shapes()
    first, new = shapes.find("a")
    first.usual = True
    assert (new, first.factor, first.judged, first.slack(SPREAD)) == (True, 0.0, True, 0.0)
    assert not shapes.several
    assert shapes.find("a") == (first, False)
    assert not shapes.find("b")[0].judged
    assert shapes.several


@pytest.mark.parametrize("count", [4, 25, 60, 2_000])
def test_a_factor_is_learnt_to_within_its_slack(count):
    shapes = Shapes()
    shapes.find("a")
    shape = taught(shapes.find("b")[0], math.log(5.0), count)
    slack = 2.5 * 1.25 * 0.2 / math.sqrt(count)
    assert abs(shape.factor - math.log(5.0)) < max(slack, 0.05)
    assert shapes.factor("b") == shape.factor
    assert shape.judged


def test_the_cold_first_request_does_not_move_it():
    shapes = Shapes()
    shapes.find("a")
    shape, _ = shapes.find("b")
    for distance in (math.log(30.0), 0.1, 0.0):
        shape.learn(LEVEL + distance, LEVEL, SPREAD)
    assert shape.factor == pytest.approx(0.1)


def test_while_the_level_is_not_known_yet_a_shape_is_held_against_its_own():
    shapes = Shapes()
    shapes.find("a")
    shape, _ = shapes.find("b")
    for level in (18.0, 17.5, 16.0, 16.0):
        shape.learn(17.0, level, SPREAD)
    assert shape.factor + 16.0 == pytest.approx(17.0)


@pytest.mark.parametrize(("dearer", "within"), [(0.5, 2_000), (1.5, 2 * FEW)])
def test_it_follows_a_shape_that_becomes_dearer(dearer, within):
    shapes = Shapes()
    shapes.find("a")
    shape = taught(shapes.find("b")[0], 0.0, 1_000)
    assert taught(shape, dearer, within).factor == pytest.approx(dearer, abs=0.15)


def test_a_cluster_of_spikes_does_not_move_it():
    shapes = Shapes()
    shapes.find("a")
    shape = taught(shapes.find("b")[0], 0.0, 1_000)
    before = shape.factor
    for _ in range(10):
        shape.learn(LEVEL + 3.0, LEVEL, SPREAD)
    assert taught(shape, 0.0, FEW).factor == pytest.approx(before, abs=0.05)


def test_too_many_shapes_share_a_class():
    shapes = Shapes()
    for number in range(MOST):
        assert shapes.find(str(number))[1]
    rest, new = shapes.find("one more")
    assert not new
    assert shapes.find("another") == (rest, False)
    assert shapes.factor("another") == rest.factor


def test_classes_that_were_not_seen_for_long_are_not_recent():
    shapes = Shapes()
    for number, key in enumerate(("a", "b", "c")):
        shapes.find(key)[0].last = 1_000 * number
    assert [shape.last for shape in shapes.recent(2_100)] == [2_000]
    assert [shape.last for shape in shapes.recent(2_000)] == [1_000, 2_000]
