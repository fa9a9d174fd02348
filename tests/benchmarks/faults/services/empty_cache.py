"""The allocator's cache is given back after every request, so that the next one has to take its memory anew."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run
from _model import backbone, token_ids

run = Run("score")


def tidy() -> None:
    if run.cuda and not run.repaired:
        torch.cuda.empty_cache()  # FAULT


def make_handler() -> Handler:
    stage, ids = backbone(run.device, depth=16), token_ids(run.device)

    def handle() -> None:
        stage(ids.to(run.device)).argmax(dim=-1).cpu()
        tidy()

    return handle


run.closed_loop(make_handler)
