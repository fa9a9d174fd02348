"""Logs a whole response as JSON."""

import midwatch.auto  # isort: skip

import json

from _serve import Run

run = Run("score", every=30)
RESPONSE = [{"id": number, "scores": [number / 7, number / 11]} for number in range(24_000)]


def log(response: object) -> int:
    return len(json.dumps(response))  # FAULT


def handle(planted: bool) -> None:
    run.score()
    log(RESPONSE if planted else RESPONSE[:2])


run.serve(handle)
