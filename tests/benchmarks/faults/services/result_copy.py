"""A large result is read back into pageable memory."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run
from _model import backbone, token_ids

run = Run("embed")


def download(x: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
    if run.repaired and run.cuda:
        held.copy_(x, non_blocking=True)
        torch.cuda.synchronize()
        return held
    return x.cpu()  # FAULT


def make_handler() -> Handler:
    stage, ids = backbone(run.device, depth=8), token_ids(run.device)
    held = torch.empty(2048, 4096, dtype=torch.bfloat16, pin_memory=True) if run.cuda else torch.empty(16, 128)

    def handle() -> None:
        download(stage(ids.to(run.device)), held)

    return handle


run.closed_loop(make_handler)
