"""Every request brings its features in pageable memory, and the host waits while they are copied."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run
from _model import backbone, token_ids

run = Run("score")


def upload(features: torch.Tensor) -> torch.Tensor:
    return features.to(run.device, non_blocking=run.repaired)  # FAULT


def make_handler() -> Handler:
    stage, ids = backbone(run.device, depth=16), token_ids(run.device)
    features = torch.randn(2048, 4096) if run.cuda else torch.randn(16, 128)
    if run.repaired and run.cuda:
        features = features.pin_memory()

    def handle() -> None:
        (stage(ids.to(run.device)) + upload(features)).argmax(dim=-1).cpu()

    return handle


run.closed_loop(make_handler)
