"""Waits before it asks a flaky cache again."""

import midwatch.auto  # isort: skip

import time

from _serve import Run

run = Run("score", every=40)


def lookup(*, flaky: bool) -> str:
    if flaky:
        time.sleep(0.03)  # FAULT
    return "value"


def handle(planted: bool) -> None:
    run.score()
    lookup(flaky=planted)


run.serve(handle)
