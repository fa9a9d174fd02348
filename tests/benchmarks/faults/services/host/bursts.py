"""Healthy: requests come twenty at a time."""

import midwatch.auto  # isort: skip

import itertools

from _serve import Run

run = Run("score")
turns = itertools.count(1)
run.serve(lambda _planted: run.score(), lambda _share: 0.0 if next(turns) % 20 else 0.2)
