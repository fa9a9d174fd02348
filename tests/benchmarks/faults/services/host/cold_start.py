"""Healthy: its first requests build what the later ones find."""

import midwatch.auto  # isort: skip

import torch
from _serve import Run

run = Run("score")
CACHE: list[torch.Tensor] = []


def handle(_planted: bool) -> None:
    if len(CACHE) < 60:
        CACHE.append(torch.linalg.qr(torch.randn(500, 500))[0])
    run.score()


run.serve(handle)
