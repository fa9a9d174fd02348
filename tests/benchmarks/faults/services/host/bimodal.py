"""Healthy: one request in five asks for much more, and takes as much longer."""

import midwatch.auto  # isort: skip

import random

from _serve import Run

run = Run("score")
choose = random.Random(5)


def handle(_planted: bool) -> None:
    run.model.repeats = 60 if choose.random() < 0.2 else 8
    run.score()


run.serve(handle)
