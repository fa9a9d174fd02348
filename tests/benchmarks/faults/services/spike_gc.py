"""A good service with one bad habit: now and then it collects garbage by hand, over a large heap, in a request."""

import midwatch.auto  # isort: skip

import gc

from _loop import Handler, Run
from _model import backbone, token_ids

run = Run("score")
HEAP = [{"number": number, "tags": [number % 7]} for number in range(150_000)]
EVERY = 1000


def tidy() -> None:
    gc.collect()  # FAULT


def make_handler() -> Handler:
    stage, ids = backbone(run.device, depth=16), token_ids(run.device)
    count = 0

    def handle() -> None:
        nonlocal count
        count += 1
        stage(ids.to(run.device)).argmax(dim=-1).cpu()
        if count % EVERY == 0:
            tidy()

    return handle


run.closed_loop(make_handler)
