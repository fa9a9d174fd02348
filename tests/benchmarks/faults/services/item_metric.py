"""A metric reads a scalar in the middle of the request, while the device still works on the first stage."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run
from _model import Head, backbone, plan, token_ids
from torch import Tensor

run = Run("rank")
EVERY = 16
seen: list[float] = []
unread: list[Tensor] = []


def record_confidence(x: Tensor) -> None:
    seen.append(x.float().abs().mean().item())  # FAULT
    del seen[:-10]


def record_later(x: Tensor) -> None:
    unread.append(x.float().abs().mean())
    if len(unread) == EVERY:
        seen.extend(torch.stack(unread).tolist())
        unread.clear()
        del seen[:-10]


def make_handler() -> Handler:
    stage, head, ids = backbone(run.device, depth=40), Head(30), token_ids(run.device)

    def handle() -> None:
        x = stage(ids.to(run.device))
        (record_later if run.repaired else record_confidence)(x)
        plan()
        head(x).cpu()

    return handle


run.closed_loop(make_handler)
