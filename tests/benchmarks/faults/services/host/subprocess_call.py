"""Asks another program for something that it could know."""

import midwatch.auto  # isort: skip

import subprocess

from _serve import Run

run = Run("score", every=50)


COMMAND = ["sh", "-c", "sleep 0.03; echo 1"]


def version() -> str:
    return subprocess.run(COMMAND, capture_output=True, text=True, check=True).stdout  # FAULT


def handle(planted: bool) -> None:
    run.score()
    if planted:
        version()


run.serve(handle)
