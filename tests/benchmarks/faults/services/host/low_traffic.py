"""Healthy: five requests a second."""

import midwatch.auto  # isort: skip

from _serve import Run

run = Run("score", rate=5.0)
run.serve(lambda _planted: run.score())
