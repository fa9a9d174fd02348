"""Healthy: requests grow with the hour, as texts do in the evening."""

import midwatch.auto  # isort: skip

import time

from _serve import Run

run = Run("score")
BEGAN = time.monotonic()


def handle(_planted: bool) -> None:
    run.model.repeats = 8 + int(12 * (time.monotonic() - BEGAN) / run.seconds)
    run.score()


run.serve(handle)
