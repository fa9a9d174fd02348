"""Healthy: how much a request asks for is log-normal, with a sigma of 0.4."""

import midwatch.auto  # isort: skip

import random

from _serve import Run

run = Run("score")
choose = random.Random(9)


def handle(_planted: bool) -> None:
    run.model.repeats = max(1, round(10 * choose.lognormvariate(0.0, 0.4)))
    run.score()


run.serve(handle)
