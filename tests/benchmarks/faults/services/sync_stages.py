"""The host waits for the whole device between the two stages; two request threads."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run
from _model import Head, backbone, token_ids

run = Run("detect")


def settle() -> None:
    if run.cuda:
        torch.cuda.synchronize()  # FAULT


def make_handler() -> Handler:
    stage, head, ids = backbone(run.device, depth=16), Head(150), token_ids(run.device)

    def handle() -> None:
        x = stage(ids.to(run.device))
        settle()
        head(x).cpu()

    return handle


run.closed_loop(make_handler, threads=2)
