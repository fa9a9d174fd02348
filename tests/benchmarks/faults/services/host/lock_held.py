"""Counts under a lock that a reporter holds while it formats."""

import midwatch.auto  # isort: skip

import threading
import time

from _serve import Run

run = Run("score", every=50)
LOCK, ASKED = threading.Lock(), threading.Event()
TOTALS = {"requests": 0}


def report() -> None:
    while True:
        ASKED.wait()
        with LOCK:
            ASKED.clear()
            time.sleep(0.04)


def count() -> None:
    with LOCK:  # FAULT
        TOTALS["requests"] += 1


def handle(planted: bool) -> None:
    run.score()
    if planted:
        ASKED.set()
        while ASKED.is_set():
            time.sleep(0.0001)
    count()


threading.Thread(target=report, name="reporter", daemon=True).start()
run.serve(handle)
