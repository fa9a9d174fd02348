"""A guard asks the device a question in the middle of the request, and the host waits for the answer."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run
from _model import Head, backbone, plan, token_ids

run = Run("detect")


def check(x: torch.Tensor) -> None:
    if torch.isnan(x).any():  # FAULT
        raise ValueError("not a number in the features")


def make_handler() -> Handler:
    stage, head, ids = backbone(run.device, depth=40), Head(30), token_ids(run.device)

    def handle() -> None:
        x = stage(ids.to(run.device))
        if not run.repaired:
            check(x)
        plan()
        head(x).cpu()
        if run.repaired:
            check(x)

    return handle


run.closed_loop(make_handler)
