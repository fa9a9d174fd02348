"""The plain part of every service here: arguments, a request thread in a closed loop, latencies to a file.

With ``--twin FILE`` one process serves with its fault and repaired, as the word in FILE says: ``faulty``, ``repaired``,
or ``both`` by turns of a quarter of a second, so that whatever else slows the machine slows both. The repaired requests
are a route of their own, and their latencies go to a file of their own, ``.repaired`` after the name of the other.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path

import midwatch
import torch

WARMUP_REQUESTS = 30
TURN_S = 0.25

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
        parser.add_argument("--twin", default="", help="a file that says which to serve: faulty, repaired or both")
        parser.add_argument("--size", type=int, default=0, help="for services that are run at more than one size")
        given = parser.parse_args()
        self.size: int = given.size
        self.route = route
        self.repaired: bool = given.repaired
        self.device = torch.device(given.device)
        self.seconds: float = given.seconds
        self._path: str = given.latencies
        self._twin: str = given.twin
        self._lock = threading.Lock()
        self._seen, self._seen_repaired = array("q"), array("q")
        self._ended = threading.Event()
        self._until = self._turn_until = 0.0
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._ended.set())
        if self.device.type == "cpu":
            torch.set_num_threads(1)

    @property
    def cuda(self) -> bool:
        """True on a GPU, where the sizes are the real ones; on a CPU they only have to run."""
        return self.device.type == "cuda"

    def note(self, start_unix_ns: int, duration_ns: int) -> None:
        """Keep one latency."""
        seen = self._seen_repaired if self._twin and self.repaired else self._seen
        with self._lock:
            seen.extend((start_unix_ns, duration_ns))

    def save(self) -> None:
        """Write all latencies to the file that was asked for."""
        if self._path:
            with Path(self._path).open("wb") as out:
                self._seen.tofile(out)
        if self._path and self._twin:
            with Path(self._path + ".repaired").open("wb") as out:
                self._seen_repaired.tofile(out)

    def closed_loop(self, make_handler: Callable[[], Handler]) -> None:
        """Let one request thread call the handler, one request after another, until the time is up."""
        handlers = {}
        for repaired in (False, True) if self._twin else (self.repaired,):
            self.repaired = repaired
            handlers[repaired] = handler = make_handler()
            for _ in range(WARMUP_REQUESTS):
                self._one(handler)
        self.begin()
        worker = threading.Thread(target=self._work, args=(handlers,), name="request")
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

    def take_turn(self) -> None:
        """Have `repaired` say which to serve now, where both are served."""
        now = time.monotonic()
        if self._twin and now >= self._turn_until:
            wanted = Path(self._twin).read_text(encoding="ascii")
            self.repaired = wanted == "repaired" or (wanted == "both" and not self.repaired)
            self._turn_until = now + TURN_S

    @property
    def route_now(self) -> str:
        """The route of what is served now."""
        return f"{self.route} repaired" if self._twin and self.repaired else self.route

    def _work(self, handlers: Mapping[bool, Handler]) -> None:
        while not self.over():
            self.take_turn()
            self._one(handlers[self.repaired])

    @torch.inference_mode()
    def _one(self, handler: Handler) -> None:
        start_unix_ns, began = time.time_ns(), time.perf_counter_ns()
        with midwatch.request(self.route_now):
            handler()
        self.note(start_unix_ns, time.perf_counter_ns() - began)
