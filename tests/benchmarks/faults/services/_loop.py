"""The plain part of every service here: arguments, a request thread in a closed loop, latencies to a file."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import midwatch
import torch

WARMUP_REQUESTS = 30

Handler = Callable[[], object]


class Run:
    """One run of a service: who asks, for how long, and how long each request took."""

    def __init__(self, route: str) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--seconds", type=float, default=20.0)
        parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
        parser.add_argument(
            "--latencies", default="", help="a file for pairs of int64: start in Unix ns, duration in ns"
        )
        parser.add_argument("--repaired", action="store_true", help="serve without the fault that the file marks")
        parser.add_argument("--size", type=int, default=0, help="for services that are run at more than one size")
        given = parser.parse_args()
        self.size: int = given.size
        self.route = route
        self.repaired: bool = given.repaired
        self.device = torch.device(given.device)
        self.seconds: float = given.seconds
        self._path: str = given.latencies
        self._lock = threading.Lock()
        self._seen = array("q")
        self._ended = threading.Event()
        self._until = 0.0
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._ended.set())
        if self.device.type == "cpu":
            torch.set_num_threads(1)

    @property
    def cuda(self) -> bool:
        """True on a GPU, where the sizes are the real ones; on a CPU they only have to run."""
        return self.device.type == "cuda"

    def note(self, start_unix_ns: int, duration_ns: int) -> None:
        """Keep one latency."""
        with self._lock:
            self._seen.extend((start_unix_ns, duration_ns))

    def save(self) -> None:
        """Write all latencies to the file that was asked for."""
        if self._path:
            with Path(self._path).open("wb") as out:
                self._seen.tofile(out)

    def closed_loop(self, make_handler: Callable[[], Handler]) -> None:
        """Let one request thread call the handler, one request after another, until the time is up."""
        handler = make_handler()
        for _ in range(WARMUP_REQUESTS):
            self._one(handler)
        self.begin()
        worker = threading.Thread(target=self._work, args=(handler,), name="request")
        worker.start()
        worker.join()
        self.save()

    def begin(self) -> None:
        """The time counts from here; the file for the latencies is there from now on."""
        if self._path:
            Path(self._path).touch()
        self._until = time.monotonic() + self.seconds

    def over(self) -> bool:
        """Whether the time is up, or SIGTERM came."""
        return time.monotonic() >= self._until or self._ended.is_set()

    def _work(self, handler: Handler) -> None:
        while not self.over():
            self._one(handler)

    @torch.inference_mode()
    def _one(self, handler: Handler) -> None:
        start_unix_ns, began = time.time_ns(), time.perf_counter_ns()
        with midwatch.request(self.route):
            handler()
        self.note(start_unix_ns, time.perf_counter_ns() - began)
