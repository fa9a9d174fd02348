"""A matrix product and an addition, a hundred times a request: the size decides what holds them up."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run

run = Run("matmul_add")
SIZE = run.size or 64
STEPS = 100 if run.cuda else 4


def step(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.add(torch.matmul(x, weight), bias)


def make_handler() -> Handler:
    x, weight, bias = (torch.randn(SIZE, SIZE, device=run.device) for _ in range(3))
    weight /= SIZE**0.5

    def handle() -> None:
        y = x
        for _ in range(STEPS):
            y = step(y, weight, bias)
        y[0].cpu()

    return handle


run.closed_loop(make_handler)
