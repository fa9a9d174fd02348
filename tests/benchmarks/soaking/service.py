"""The service under the windows, and who watches it: its requests, the GIL, and the garbage collector."""

from __future__ import annotations

import gc
import os
import statistics
import threading
import time
from pathlib import Path

HANG_S = 60
SERVICES: list = []


class Service:
    """About 160 small operators and two copies a request, as many threads as asked for, in a tight loop.

    Requests are only noted while it runs: sorting a hundred thousand of them holds the GIL for 100 ms, so figures are
    made when the service has stopped.
    """

    def __init__(self, torch, device, threads=1):
        self.torch, self.device = torch, device
        self.requests = []
        """(begin, seconds), on the monotonic clock."""
        self.paused = threading.Event()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._loop, name=f"request-{i}", daemon=True) for i in range(threads)]

    def start(self):
        SERVICES.append(self)
        for thread in self._threads:
            thread.start()
        self.wait_for(50 * len(self._threads))
        return self

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(10)

    def wait_for(self, requests):
        target, end = len(self.requests) + requests, time.monotonic() + HANG_S
        while len(self.requests) < target:
            if time.monotonic() > end:
                raise RuntimeError("the service stands still")
            time.sleep(0.01)

    def quiet(self, seconds):
        """Let it run alone; returns the stretch of time."""
        begin = time.monotonic()
        time.sleep(seconds)
        return begin, time.monotonic()

    def _loop(self):
        torch = self.torch
        weight = torch.randn(64, 64, device=self.device) * 0.1
        host = torch.randn(64, 64)
        with torch.inference_mode():
            while not self._stop.is_set():
                if self.paused.is_set():
                    time.sleep(0.01)
                    continue
                begin = time.monotonic()
                x = host.to(self.device)
                for _ in range(40):
                    x = torch.relu(x @ weight) * 0.5 + 0.1
                x.cpu()
                self.requests.append((begin, time.monotonic() - begin))


class GilProbe:
    """A thread that only wants the GIL, every 2 ms: a gap of its own is a freeze of Python, not of CUDA."""

    def __init__(self):
        self.gaps = []
        """(begin, seconds) of the waits above 2 ms."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="gil-probe", daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join(10)

    def _loop(self):
        while not self._stop.is_set():
            begin = time.monotonic()
            time.sleep(0.002)
            late = time.monotonic() - begin - 0.002
            if late > 0.002:
                self.gaps.append((begin + 0.002, late))


class GcPauses:
    """Collections that took above 1 ms, (begin, seconds)."""

    def __init__(self):
        self.pauses = []
        self._begin = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase, info):
        now = time.monotonic()
        if phase == "start":
            self._begin = now
        elif now - self._begin > 0.001:
            self.pauses.append((self._begin, now - self._begin))


def within(requests, stretch):
    """Milliseconds of the requests that began and ended in a stretch of time."""
    return [seconds * 1e3 for begin, seconds in requests if stretch[0] <= begin and begin + seconds <= stretch[1]]


def figures(latencies):
    ordered = sorted(latencies)
    if not ordered:
        return {"n": 0}
    at = lambda q: round(ordered[min(len(ordered) - 1, int(q * len(ordered)))], 3)  # noqa: E731
    return {"n": len(ordered), "p50": at(0.5), "p99": at(0.99), "max": round(ordered[-1], 3)}


def rss_mb():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def slope(values):
    """Least squares, a step of one."""
    if len(values) < 2:
        return 0.0
    mean_x, mean_y = (len(values) - 1) / 2, statistics.fmean(values)
    below = sum((x - mean_x) ** 2 for x in range(len(values)))
    return sum((x - mean_x) * (y - mean_y) for x, y in enumerate(values)) / below
