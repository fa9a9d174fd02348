"""A batcher thread applies rules in plain Python between its stages, and every request that waits for it is late."""

import midwatch.auto  # isort: skip

import queue
import threading

from _serve import Run

run = Run("score", every=40)
WORDS = [f"word{number % 97}" for number in range(2500)]
WAITING: "queue.Queue[tuple[bool, threading.Event]]" = queue.Queue()


def rescore() -> float:
    return sum(len(word) * 0.5 + hash(word) % 7 for word in WORDS for _ in range(160))  # FAULT


def work() -> None:
    while True:
        planted, done = WAITING.get()
        run.score()
        if planted:
            rescore()
        done.set()


def handle(planted: bool) -> None:
    done = threading.Event()
    WAITING.put((planted, done))
    done.wait()


threading.Thread(target=work, name="batcher", daemon=True).start()
run.serve(handle)
