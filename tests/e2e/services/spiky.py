"""A small service without torch: quick requests on one thread, and a garbage collection by hand in one of a hundred."""

import midwatch.auto  # isort: skip

import argparse
import dataclasses
import gc
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import midwatch

parser = argparse.ArgumentParser()
parser.add_argument("--every", type=int, default=100, help="a fault in so many requests; 0 for none")
parser.add_argument("--fork", action="store_true", help="fork a child that stays, after 50 requests")
parser.add_argument("--report", default="", help="a file that always holds one JSON document")
given = parser.parse_args()

HEAP = [{"number": number, "tags": [number % 7]} for number in range(60_000)]
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda _number, _frame: ended.set())


def tidy() -> None:
    gc.collect()  # FAULT


def serve(number: int) -> None:
    with midwatch.request("score"):
        sum(HEAP[number % 50_000]["tags"])
        time.sleep(0.001)
        if given.every and number % given.every == given.every - 1:
            tidy()


def fork() -> None:
    if os.fork() == 0:
        for number in range(20):
            serve(number)
        print("child served", os.getpid(), flush=True)
        time.sleep(60)
        os._exit(0)


def report() -> None:
    if given.report:
        status = dataclasses.asdict(midwatch.status())
        part = Path(f"{given.report}.part")
        part.write_text(json.dumps({"requests": number, "errors": errors, "status": status}))
        part.replace(given.report)


number = errors = 0
print("up", flush=True)
while not ended.is_set():
    try:
        serve(number)
    except Exception:
        errors += 1
    number += 1
    if number == 50 and given.fork:
        fork()
    if number % 200 == 0:
        report()
report()
sys.exit(0)
