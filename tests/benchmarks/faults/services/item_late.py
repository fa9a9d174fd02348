"""Bound by the device, with a read of a scalar that gains nothing: the host would wait for the result all the same."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run
from _model import backbone, token_ids

run = Run("classify")
seen: list[float] = []


def watch_level(x: torch.Tensor) -> None:
    seen.append(x[0, 0].item())  # SUSPECT
    del seen[:-10]


def make_handler() -> Handler:
    stage, ids = backbone(run.device, depth=40), token_ids(run.device)

    def handle() -> None:
        x = stage(ids.to(run.device))
        if not run.repaired:
            watch_level(x)
        x.argmax(dim=-1).cpu()

    return handle


run.closed_loop(make_handler)
