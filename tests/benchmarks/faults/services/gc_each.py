"""Garbage is collected by hand in every request."""

import midwatch.auto  # isort: skip

import gc

from _loop import Handler, Run
from _model import backbone, token_ids

run = Run("score")
HEAP = [{"number": number} for number in range(20_000)]


def tidy() -> None:
    if not run.repaired:
        gc.collect()  # FAULT


def make_handler() -> Handler:
    stage, ids = backbone(run.device, depth=16), token_ids(run.device)

    def handle() -> None:
        stage(ids.to(run.device)).argmax(dim=-1).cpu()
        tidy()

    return handle


run.closed_loop(make_handler)
