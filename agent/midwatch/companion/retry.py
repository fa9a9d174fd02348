"""When to try again: exponential back-off with jitter, so that a fleet does not come back all at once."""

from __future__ import annotations

import random

_BASE_S = 0.5


class Retry:
    """The delays of one thing that is tried until it works: they double up to ``cap_s``, less a random half at most."""

    def __init__(self, rng: random.Random | None = None, *, cap_s: float = 10.0) -> None:
        self._cap_s = cap_s
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, protects nothing
        self._failures = 0

    def delay_s(self) -> float:
        """Return how long to wait after one more failure, seconds."""
        ceiling = min(self._cap_s, _BASE_S * 2.0**self._failures)
        self._failures = min(self._failures + 1, 10)
        return self._rng.uniform(ceiling / 2.0, ceiling)

    def reset(self) -> None:
        """It worked: the next failure waits but shortly."""
        self._failures = 0
