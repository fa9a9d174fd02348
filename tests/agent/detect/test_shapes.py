"""What a shape of inputs costs beside the usual one."""

import math
import random

import pytest
from midwatch.detect.shapes import FEW, MOST, Shapes

SPREAD, LEVEL = 0.2 * 1.645, 16.0


def taught(shape, factor, count, seed=1):
    generator = random.Random(seed)
    for _ in range(count):
        shape.last += 20
        shape.learn(LEVEL + factor + generator.gauss(0.0, 0.2), LEVEL, SPREAD)
    return shape


def test_the_first_class_is_the_usual_one():
    shapes = Shapes()
    first = shapes.find("a", 1)
    first.usual = True
    assert (first.factor, first.judged, first.slack(SPREAD)) == (0.0, True, 0.0)
    assert not shapes.several
    assert shapes.find("a", 2) is first
    assert not shapes.find("b", 1).judged
    assert shapes.several


@pytest.mark.parametrize("count", [4, 25, 60, 2_000])
def test_a_factor_is_learnt_to_within_its_slack(count):
    shapes = Shapes()
    shapes.find("a", 1)
    shape = taught(shapes.find("b", 1), math.log(5.0), count)
    slack = 2.5 * 1.25 * 0.2 / math.sqrt(count)
    assert abs(shape.factor - math.log(5.0)) < max(slack, 0.05)
    assert shapes.factor("b") == shape.factor
    assert shape.judged


def test_the_cold_first_request_does_not_move_it():
    shapes = Shapes()
    shapes.find("a", 1)
    shape = shapes.find("b", 1)
    for distance in (math.log(30.0), 0.1, 0.0):
        shape.learn(LEVEL + distance, LEVEL, SPREAD)
    assert shape.factor == pytest.approx(0.1)


def test_while_the_level_is_not_known_yet_a_shape_is_held_against_its_own():
    shapes = Shapes()
    shapes.find("a", 1)
    shape = shapes.find("b", 1)
    for level in (18.0, 17.5, 16.0, 16.0):
        shape.learn(17.0, level, SPREAD)
    assert shape.factor + 16.0 == pytest.approx(17.0)


@pytest.mark.parametrize(("dearer", "within"), [(0.5, 2_000), (1.5, 2 * FEW)])
def test_it_follows_a_shape_that_becomes_dearer(dearer, within):
    shapes = Shapes()
    shapes.find("a", 1)
    shape = taught(shapes.find("b", 1), 0.0, 1_000)
    assert taught(shape, dearer, within).factor == pytest.approx(dearer, abs=0.15)


def test_a_cluster_of_spikes_does_not_move_it():
    shapes = Shapes()
    shapes.find("a", 1)
    shape = taught(shapes.find("b", 1), 0.0, 1_000)
    before = shape.factor
    for _ in range(10):
        shape.learn(LEVEL + 3.0, LEVEL, SPREAD)
    assert taught(shape, 0.0, FEW).factor == pytest.approx(before, abs=0.05)


def test_too_many_shapes_share_a_class_until_an_old_one_is_forgotten():
    shapes = Shapes()
    for number in range(MOST):
        shapes.find(str(number), number + 1)
    rest = shapes.find("one more", 300)
    assert shapes.find("another", 10_000) is rest
    assert shapes.find("0", 10_001) is not rest
    later = shapes.find("another", 10_010)
    assert later is not rest, "the second was not seen for ten thousand requests"
    assert shapes.find("another", 10_011) is later


def test_classes_that_were_not_seen_for_long_are_not_recent():
    shapes = Shapes()
    for number, key in enumerate(("a", "b", "c")):
        shape = shapes.find(key, 1_000 * number)
        shape.usual = True
    assert [shape.last for shape in shapes.recent(2_100)] == [2_000]
    assert [shape.last for shape in shapes.recent(2_000)] == [1_000, 2_000]
