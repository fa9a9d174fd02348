"""The batcher: one thread that collects the waiting requests, runs the model on them, and hands the answers back."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from dataclasses import dataclass

import torch

from midwatch_client.demo.ranker import metrics, rules
from midwatch_client.demo.ranker.model import CANDIDATES, FEATURES, build

MAX_BATCH = 8
MAX_WAIT_S = 0.004


@dataclass(frozen=True, slots=True)
class Query:
    """What one user asks for; ``diverse`` asks for a page without near-duplicates."""

    user: int
    diverse: bool = False


@dataclass(frozen=True, slots=True)
class _Job:
    query: Query
    answer: asyncio.Future[list[int]]


class Batcher:
    """Ranks queries in batches on a thread of its own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._towers, self._head = build(device)
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name="batcher", daemon=True).start()

    async def rank(self, query: Query) -> list[int]:
        """The candidates of ``query``, the best first."""
        job = _Job(query, self._loop.create_future())
        self._jobs.put(job)
        return await job.answer

    def _run(self) -> None:
        while True:
            jobs = self._collect()
            for job, ranking in zip(jobs, self._rank([job.query for job in jobs]), strict=True):
                self._loop.call_soon_threadsafe(_answer, job.answer, ranking)

    def _collect(self) -> list[_Job]:
        jobs = [self._jobs.get()]
        until = time.monotonic() + MAX_WAIT_S
        with contextlib.suppress(queue.Empty):
            while len(jobs) < MAX_BATCH:
                jobs.append(self._jobs.get(timeout=max(0.0, until - time.monotonic())))
        return jobs

    @torch.inference_mode()
    def _rank(self, queries: list[Query]) -> list[list[int]]:
        users, items = self._features(queries)
        users, items = self._towers(users, items)
        if any(query.diverse for query in queries):
            items = items + rules.penalties(items.shape[1]).to(self._device)
        scores = self._head(users, items)
        metrics.record_confidence(scores)
        order = torch.softmax(scores, dim=-1).argsort(dim=-1, descending=True)
        return order.cpu().tolist()

    def _features(self, queries: list[Query]) -> tuple[torch.Tensor, torch.Tensor]:
        """Features of the users [batch, FEATURES] and of their candidates [batch, CANDIDATES, FEATURES]."""
        seeds = torch.tensor([float(query.user) for query in queries])
        users = torch.sin(seeds[:, None] * torch.arange(1, FEATURES + 1))
        items = torch.cos(seeds[:, None, None] + torch.arange(CANDIDATES * FEATURES).view(CANDIDATES, FEATURES))
        return users.to(self._device), items.to(self._device)


def _answer(future: asyncio.Future[list[int]], ranking: list[int]) -> None:
    if not future.done():  # the client may have gone away meanwhile
        future.set_result(ranking)
