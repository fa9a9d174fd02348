"""Launch-bound, with a read of a scalar that costs next to nothing: the device has long been done when it comes."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run

run = Run("filter")
STEPS = 120 if run.cuda else 30
seen: list[float] = []


def sharpen(x: torch.Tensor) -> torch.Tensor:
    for _ in range(STEPS):
        x = torch.tanh(x * 0.99 + 0.01)  # FAULT
    return x


def watch_level(x: torch.Tensor) -> None:
    seen.append(x[0, 0].item())
    del seen[:-10]


def make_handler() -> Handler:
    signal = torch.randn(8, 256)

    def handle() -> None:
        x = sharpen(signal.to(run.device))
        if not run.repaired:
            watch_level(x)
        sharpen(x).cpu()

    return handle


run.closed_loop(make_handler)
