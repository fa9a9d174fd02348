"""The model: user and item towers first, then a ranking head over every pair of user and candidate."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

FEATURES = 64
CANDIDATES = 48


def _mlp(sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for wide, narrow in itertools.pairwise(sizes):
        layers += [nn.Linear(wide, narrow), nn.GELU()]
    return nn.Sequential(*layers[:-1])


class Towers(nn.Module):
    """First stage: embeds the users and their candidate items."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.user = _mlp([FEATURES, *[width] * depth, FEATURES])
        self.item = _mlp([FEATURES, *[width] * depth, FEATURES])

    def forward(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """Embed ``users`` [batch, FEATURES] and ``items`` [batch, CANDIDATES, FEATURES]; the shapes stay."""
        return self.user(users), self.item(items)


class Head(nn.Module):
    """Second stage: scores each pair."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.score = _mlp([2 * FEATURES, *[width] * depth, 1])

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores [batch, CANDIDATES] for embedded ``users`` and ``items``."""
        pairs = torch.cat([users.unsqueeze(1).expand_as(items), items], dim=-1)
        scores: Tensor = self.score(pairs).squeeze(-1)
        return scores


def build(device: torch.device) -> tuple[Towers, Head]:
    """Both stages with random weights, sized so that a batch takes a few milliseconds on ``device``."""
    torch.manual_seed(7)
    width, depth = (4096, 6) if device.type == "cuda" else (256, 3)
    return Towers(width, depth).to(device).eval(), Head(width, depth).to(device).eval()
