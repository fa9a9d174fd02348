"""A metric reads a scalar in the middle of the request, while the device still works on the first stage."""

import midwatch.auto  # isort: skip

from _loop import Handler, Run
from _model import Head, backbone, plan, token_ids
from torch import Tensor

run = Run("rank")
seen: list[float] = []


def record_confidence(x: Tensor) -> None:
    seen.append(x.float().abs().mean().item())  # FAULT
    del seen[:-10]


def make_handler() -> Handler:
    stage, head, ids = backbone(run.device, depth=40), Head(30), token_ids(run.device)

    def handle() -> None:
        x = stage(ids.to(run.device))
        if not run.repaired:
            record_confidence(x)
        plan()
        head(x).cpu()
        if run.repaired:  # the same work, where nothing is left to be launched
            record_confidence(x)

    return handle


run.closed_loop(make_handler)
