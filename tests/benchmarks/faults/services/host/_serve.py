"""The plain part of every service here: requests at even distances on one thread, and a record of what was planted.

A service names itself, says what a request does, and whether this one has the fault. ``--every`` says how often it has:
one request of so many, chosen by a seeded generator, or each with 1. The file of ``--record`` holds triples of int64:
start in Unix ns, duration in ns, and 1 where the fault was planted.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import midwatch
import torch
from torch import Tensor, nn

SEED = 11
SETTLE_S = 6.0
"""Before the first planted spike. A route is learnt for 200 requests; imports and the agent's start go before."""
BASE = 8
"""Passes of an ordinary request: about one and a half milliseconds."""


class Ranker(nn.Module):
    """Features [batch, 64] to a score each; a fifth of a millisecond for a batch of 32 and one repeat."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[part for _ in range(12) for part in (nn.Linear(64, 64), nn.ReLU())])
        self.repeats = BASE

    def forward(self, features: Tensor) -> Tensor:
        for _ in range(self.repeats):
            features = self.layers(features)
        return features.mean(dim=-1)


class Run:
    """One run of a service."""

    def __init__(self, route: str, *, rate: float = 100.0, every: int = 0) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--seconds", type=float, default=20.0)
        parser.add_argument("--record", type=Path, default=Path("record"))
        parser.add_argument("--every", type=int, default=every)
        given = parser.parse_args()
        self.seconds: float = given.seconds
        self.every: int = given.every
        self.route, self.rate = route, rate
        self.model = Ranker().eval()
        self.features = torch.randn(32, 64)
        self._record: Path = given.record
        self._seen = array("q")
        self._lock = threading.Lock()
        self._random = random.Random(SEED)
        self._settled_s = time.monotonic() + SETTLE_S
        torch.set_num_threads(1)

    def plant(self) -> bool:
        """Whether the next request has the fault. None has that must spike before its route has warmed up."""
        if self.every > 1 and time.monotonic() < self._settled_s:
            return False
        return self.every > 0 and self._random.random() < 1.0 / self.every

    def note(self, start_unix_ns: int, duration_ns: int, planted: bool) -> None:
        """Keep one request."""
        with self._lock:
            self._seen.extend((start_unix_ns, duration_ns, planted))

    def save(self) -> None:
        """Write what was kept."""
        with self._record.open("wb") as out:
            self._seen.tofile(out)

    @torch.inference_mode()
    def score(self) -> float:
        """The good part of a request."""
        return float(self.model(self.features).mean())

    def serve(self, handle: Callable[[bool], object], pause_s: Callable[[float], float] | None = None) -> None:
        """Call ``handle(planted)`` for each request until the time is up.

        ``pause_s`` gives the seconds to the next request for the share of the run that is over; without, it is 1/rate.
        """
        began = due = time.monotonic()
        while (now := time.monotonic()) < began + self.seconds:
            due = max(due, now - 0.5) + (pause_s((now - began) / self.seconds) if pause_s else 1.0 / self.rate)
            time.sleep(max(0.0, due - time.monotonic()))
            planted = self.plant()
            start_unix_ns, start_ns = time.time_ns(), time.perf_counter_ns()
            with midwatch.request(self.route):
                handle(planted)
            self.note(start_unix_ns, time.perf_counter_ns() - start_ns, planted)
        self.save()
