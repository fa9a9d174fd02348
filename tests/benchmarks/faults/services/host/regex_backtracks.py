"""Validates a field with an expression that backtracks."""

import midwatch.auto  # isort: skip

import re

from _serve import Run

run = Run("score", every=60)
PATTERN = re.compile(r"^(\w+\s?)*$")


def valid(text: str) -> bool:
    return PATTERN.match(text) is not None  # FAULT


def handle(planted: bool) -> None:
    run.score()
    valid("a" * 20 + "!" if planted else "words only")


run.serve(handle)
