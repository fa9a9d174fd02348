"""Prints what marks and hooks cost a request of a web application whose model has driven everything out of the caches.

    python tests/benchmarks/cold_app.py [--requests 1500]

One Starlette application with one small root module, called in this process without a server. Before each call a model
of three megabytes runs, and the thread sleeps for a moment, as between two requests; "warm" rows leave that out. The
same application takes turns without Midwatch (A and A/A), with its requests marked, with its root module followed, and
with both. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from typing import Any

import torch
from midwatch.clock import SystemClock
from midwatch.integrations.starlette import StarletteIntegration
from midwatch.requests.roots import Roots
from midwatch.requests.tracker import Tracker, install
from midwatch.requests.units import Units
from starlette import applications, routing
from starlette.requests import Request
from starlette.responses import JSONResponse

PAUSE_S = 0.0008
DRAIN_EVERY = 200
MODES = {"nothing (A)": "", "nothing (A/A)": "", "marked": "m", "followed": "f", "marked and followed": "mf"}


class Bench:
    """The application, with and without what Midwatch puts around it."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.tracker = Tracker(clock)
        self.units = Units(clock, self.tracker)
        self._roots = Roots(clock, self.units)
        self._starlette = StarletteIntegration()
        self._model = torch.nn.Identity().eval()
        self._input = torch.randn(32, 256)
        layers = [part for _ in range(12) for part in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
        self._large = torch.nn.Sequential(*layers).eval()
        self._app = applications.Starlette(routes=[routing.Route("/rank", self._rank)])

    async def _rank(self, _request: Request) -> JSONResponse:
        self._model(self._input)
        return JSONResponse({"mean": 1.0})

    def attach(self, mode: str) -> None:
        """Put around the application what ``mode`` says, and nothing else."""
        install(self.tracker if "m" in mode else None)
        if "m" in mode:
            self._starlette._applications(applications)
            self._starlette._routing(routing)
        if "f" in mode:
            self._roots.adopt(self._model)

    def detach(self) -> None:
        """Take it away again."""
        install(None)
        self._starlette.stop()
        self._roots.stop()

    def cool(self) -> None:
        """Drive everything else out of the caches."""
        self._large(self._input)
        time.sleep(PAUSE_S)

    def request_us(self) -> float:
        """One request, in microseconds."""
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": "/rank", "raw_path": b"/rank", "root_path": "", "query_string": b"", "client": ("127.0.0.1", 4000),
            "server": ("127.0.0.1", 8000), "headers": [(b"host", b"127.0.0.1"), (b"accept-encoding", b"identity")],
        }  # fmt: skip
        call = self._app(scope, _receive, _send)
        begin_ns = time.perf_counter_ns()
        try:
            call.send(None)
        except StopIteration:
            return (time.perf_counter_ns() - begin_ns) / 1e3
        raise RuntimeError("the application waits for something")


async def _receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(_message: object) -> None:
    pass


def measure(bench: Bench, requests: int, *, cold: bool) -> dict[str, float]:
    """The median of each mode, in microseconds."""
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    modes = list(MODES)
    for number in range(requests):
        random.shuffle(modes)
        for mode in modes:
            bench.attach(MODES[mode])
            bench.request_us()
            if cold:
                bench.cool()
            times[mode].append(bench.request_us())
            bench.detach()
        if number % DRAIN_EVERY == 0:
            bench.tracker.drain()
            bench.units.drain()
    return {mode: statistics.median(seen) for mode, seen in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1500, help="of each mode")
    options = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench()
    with torch.inference_mode():
        for cold in (True, False):
            print("beside a model" if cold else "warm")
            medians = measure(bench, options.requests, cold=cold)
            base = medians["nothing (A)"]
            for mode, median in medians.items():
                print(f"  {mode:<22} {median:6.1f} us {median - base:+6.1f} us")


if __name__ == "__main__":
    main()
