"""Applies business rules in plain Python."""

import midwatch.auto  # isort: skip

from _serve import Run

run = Run("score", every=25)
WORDS = [f"word{number % 97}" for number in range(2500)]


def rescore(rounds: int) -> float:
    return sum(len(word) * 0.5 + hash(word) % 7 for word in WORDS for _ in range(rounds))  # FAULT


def handle(planted: bool) -> None:
    run.score()
    if planted:
        rescore(160)


run.serve(handle)
