"""Large matrix products in float32 without TF32: the tensor cores stand idle."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run
from _model import backbone, token_ids

run = Run("embed")


def embed(stage: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return stage(ids)  # FAULT


def make_handler() -> Handler:
    stage, ids = backbone(run.device, depth=6, dtype=torch.float32), token_ids(run.device)

    def handle() -> None:
        torch.backends.cuda.matmul.allow_tf32 = run.repaired
        embed(stage, ids.to(run.device)).argmax(dim=-1).cpu()

    return handle


run.closed_loop(make_handler)
