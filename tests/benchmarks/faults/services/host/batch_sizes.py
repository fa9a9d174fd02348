"""Healthy: batches of many sizes, each as slow as it is large."""

import midwatch.auto  # isort: skip

import random

import torch
from _serve import Run

run = Run("score")
BATCHES = [torch.randn(2**power, 64) for power in range(4, 12)]
choose = random.Random(7)


@torch.inference_mode()
def handle(_planted: bool) -> None:
    float(run.model(choose.choice(BATCHES)).mean())


run.serve(handle)
