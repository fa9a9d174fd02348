"""Collects garbage by hand, over a large heap, in a request."""

import midwatch.auto  # isort: skip

import gc

from _serve import Run

run = Run("score", every=50)
HEAP = [{"number": number, "tags": [number % 7]} for number in range(150_000)]


def tidy() -> None:
    gc.collect()  # FAULT


def handle(planted: bool) -> None:
    run.score()
    if planted:
        tidy()


run.serve(handle)
