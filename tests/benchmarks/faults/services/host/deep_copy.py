"""Copies its whole configuration, to be safe. The heap is frozen: else the collections that it sets off take longer."""

import midwatch.auto  # isort: skip

import copy
import gc

from _serve import Run

run = Run("score", every=30)
SETTINGS = {f"tenant{number}": {"weights": [number, number + 1], "name": str(number)} for number in range(16_000)}
gc.freeze()  # what the copy itself leaves behind is what a collection has to search


def settings() -> dict[str, object]:
    return copy.deepcopy(SETTINGS)  # FAULT


def handle(planted: bool) -> None:
    run.score()
    if planted:
        settings()


run.serve(handle)
