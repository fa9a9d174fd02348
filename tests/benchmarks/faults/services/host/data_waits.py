"""Takes its examples from a loader whose worker is slow now and then."""

import midwatch.auto  # isort: skip

import time

import torch
from _serve import Run
from torch.utils.data import DataLoader, IterableDataset

run = Run("evaluate", every=1)


class Examples(IterableDataset):
    def __iter__(self):
        while True:
            time.sleep(0.015)
            yield torch.zeros(64)


def evaluate(batches) -> None:
    next(batches)  # FAULT
    run.score()


if __name__ == "__main__":
    batches = iter(DataLoader(Examples(), batch_size=2, num_workers=1, prefetch_factor=2))
    run.serve(lambda _planted: evaluate(batches))
