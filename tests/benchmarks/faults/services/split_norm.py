"""A normalisation written out in nine small steps, sixty times a request, where one fused kernel would do each."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run

run = Run("normalise")
LAYERS = 60 if run.cuda else 20
EPSILON = 1e-5


def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    if run.repaired:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, EPSILON)
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.pow(2).mean(dim=-1, keepdim=True)
    return centred * (variance + EPSILON).rsqrt() * weight + bias  # FAULT


def make_handler() -> Handler:
    x, weight, bias = torch.randn(8, 256), torch.ones(256, device=run.device), torch.zeros(256, device=run.device)

    def handle() -> None:
        y = x.to(run.device)
        for _ in range(LAYERS):
            y = norm(y, weight, bias)
        y.cpu()

    return handle


run.closed_loop(make_handler)
