"""The host waits for the whole device between the two stages."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run
from _model import Head, backbone, plan, token_ids

run = Run("detect")


def settle() -> None:
    if run.cuda and not run.repaired:
        torch.cuda.synchronize()  # FAULT


def make_handler() -> Handler:
    stage, head, ids = backbone(run.device, depth=40), Head(30), token_ids(run.device)

    def handle() -> None:
        x = stage(ids.to(run.device))
        settle()
        plan()
        head(x).cpu()

    return handle


run.closed_loop(make_handler)
