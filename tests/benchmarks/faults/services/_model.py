"""Building blocks of the services: a backbone that keeps the device busy, and a head that keeps the host busy."""

from __future__ import annotations

import torch
from torch import Tensor, nn

VOCABULARY = 1024


class Backbone(nn.Module):
    """Token ids [batch] to features [batch, width]: few large products, so the device works and the host is early."""

    def __init__(self, width: int, depth: int, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width, device=device, dtype=dtype)
        self.layers = nn.ModuleList(
            nn.Linear(width, width, bias=False, device=device, dtype=dtype) for _ in range(depth)
        )

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Head(nn.Module):
    """Features [batch, width] to a class each: many small steps, so the host is busy and the device is not."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        logits = x[:, :64].float()
        for step in range(self.steps):
            logits = torch.tanh(logits + 0.01 * step)
        return logits.argmax(dim=-1)


def plan(items: int = 3000) -> int:
    """What the host has to do between the stages: half a millisecond of Python. Unless the host must wait, it is hidden
    behind the device's work, and so is what the head costs to launch."""
    return sum(len(str(item)) for item in range(items))


def backbone(device: torch.device, depth: int = 24, dtype: torch.dtype = torch.bfloat16) -> Backbone:
    """A backbone of about 0.09 ms a layer on an H200, or a tiny one on a CPU.

    Its weights are zero: with random ones the device reaches its power limit, and then clocks lower the less it rests,
    so that a service without its fault had kernels 9 % slower than with it.
    """
    width, dtype = (4096, dtype) if device.type == "cuda" else (128, torch.float32)
    stage = Backbone(width, depth, device, dtype).eval()
    with torch.no_grad():
        for weight in stage.parameters():
            weight.zero_()
    return stage


def token_ids(device: torch.device, batch: int = 2048) -> Tensor:
    """Ids in host memory, as a request brings them: [batch], or fewer on a CPU."""
    return torch.arange(batch if device.type == "cuda" else 16) % VOCABULARY
