"""Copies its whole configuration, to be safe."""

import midwatch.auto  # isort: skip

import copy

from _serve import Run

run = Run("score", every=30)
SETTINGS = {f"tenant{number}": {"weights": [number, number + 1], "name": str(number)} for number in range(16_000)}


def settings() -> dict[str, object]:
    return copy.deepcopy(SETTINGS)  # FAULT


def handle(planted: bool) -> None:
    run.score()
    if planted:
        settings()


run.serve(handle)
