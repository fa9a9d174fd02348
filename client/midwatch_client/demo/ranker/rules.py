"""Business rules between the two stages: near-duplicates on one page are pushed down."""

from __future__ import annotations

import torch

_TAGS = [[(item * step) % 97 for step in range(1, 33)] for item in range(320)]


def penalties(candidates: int) -> torch.Tensor:
    """A penalty for each of ``candidates``, from the tags it shares with the rest of the catalogue: [candidates, 1]."""
    shared = [0] * candidates
    for item in range(candidates):
        shared[item] = sum(tag in other for other in _TAGS for tag in _TAGS[item])  # FAULT(rules)
    return torch.tensor(shared, dtype=torch.float32).unsqueeze(-1) * -1e-4
