"""Writes an audit record to a pipe whose reader is slow."""

import midwatch.auto  # isort: skip

import os
import threading
import time

from _serve import Run

run = Run("score", every=50)
READER, WRITER = os.pipe()
RECORD = b"x" * 131_072


def drain() -> None:
    while True:
        os.read(READER, 4096)
        time.sleep(0.002)


def audit() -> None:
    os.write(WRITER, RECORD)  # FAULT


def handle(planted: bool) -> None:
    run.score()
    if planted:
        audit()


threading.Thread(target=drain, name="reader", daemon=True).start()
run.serve(handle)
