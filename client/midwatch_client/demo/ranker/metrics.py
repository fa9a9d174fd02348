"""The metric of the story: harmless to look at."""

from __future__ import annotations

from torch import Tensor

_seen: list[float] = []


def record_confidence(scores: Tensor) -> None:
    """Note how sure the model is of this batch, for the dashboard."""
    _seen.append(scores.abs().mean().item())  # FAULT(metric_item)
    del _seen[:-100]
