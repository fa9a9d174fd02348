"""Inputs of ever new sizes go into a model that is compiled for each."""

import midwatch.auto  # isort: skip

import itertools

import torch
from _serve import Run

run = Run("score", every=100)
torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10_000
compiled = torch.compile(run.model, backend="eager", dynamic=False)
sizes = itertools.count(33)


@torch.inference_mode()
def score(size: int) -> float:
    return float(compiled(torch.zeros(size, 64)).mean())  # FAULT


def handle(planted: bool) -> None:
    score(next(sizes) if planted else 32)


run.serve(handle)
