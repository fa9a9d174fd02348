"""Compresses a response in the request."""

import midwatch.auto  # isort: skip

import random
import zlib

from _serve import Run

run = Run("score", every=40)
BODY = random.Random(3).randbytes(1_500_000)


def pack() -> int:
    return len(zlib.compress(BODY, 6))  # FAULT


def handle(planted: bool) -> None:
    run.score()
    if planted:
        pack()


run.serve(handle)
