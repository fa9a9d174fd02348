"""A housekeeping thread sorts a large table: one call into C, which holds the GIL, and requests wait for it."""

import midwatch.auto  # isort: skip

import random
import threading
import time

from _serve import Run

run = Run("score", every=60)
TABLE = [random.random() for _ in range(240_000)]
ASKED, BEGUN = threading.Event(), threading.Event()


def rank() -> list[float]:
    return sorted(TABLE)  # FAULT


def housekeep() -> None:
    while True:
        ASKED.wait()
        ASKED.clear()
        BEGUN.set()
        rank()


def handle(planted: bool) -> None:
    if planted:
        BEGUN.clear()
        ASKED.set()
        BEGUN.wait()
        time.sleep(0)
    run.score()


threading.Thread(target=housekeep, name="housekeeper", daemon=True).start()
run.serve(handle)
