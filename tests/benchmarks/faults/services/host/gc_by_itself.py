"""Keeps what it built for a while, so that the collector comes by itself and searches a large heap."""

import midwatch.auto  # isort: skip

import gc

from _serve import Run

run = Run("score", every=40)
HEAP = [{"number": number, "tags": [number % 7]} for number in range(150_000)]
gc.set_threshold(5_000, 1, 1)


def explain() -> list[object]:
    return [{"path": [step]} for step in range(50_000)]


def handle(planted: bool) -> None:
    run.score()
    if planted:
        explain()


run.serve(handle)
