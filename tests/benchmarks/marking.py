"""Prints what marking costs the service's own threads: a request, a unit, the import, each as a median of runs.

A/A rows stand beside: the same loop without the mark, twice. Nothing is asserted; compare on a quiet machine.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from midwatch import request
from midwatch.clock import SystemClock
from midwatch.requests.tracker import Tracker, install

IMPORT = "import time; t = time.perf_counter(); import midwatch.auto; print((time.perf_counter() - t) * 1e3)"
BASE = (
    "import time; t = time.perf_counter(); import dataclasses, logging, inspect; print((time.perf_counter() - t) * 1e3)"
)


def per_call_us(work: Callable[[], None], after: Callable[[], object], calls: int, runs: int) -> tuple[float, float]:
    """Return the median and the best of ``runs``, in microseconds of CPU time a call."""
    times = []
    for _ in range(runs):
        begin = time.thread_time_ns()
        for _ in range(calls):
            work()
        times.append((time.thread_time_ns() - begin) / calls / 1e3)
        after()
    return statistics.median(times), min(times)


def import_ms(code: str, runs: int) -> tuple[float, float]:
    """Return the median and the best of ``runs`` fresh processes."""
    times = []
    for _ in range(runs):
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        times.append(float(done.stdout))
    return statistics.median(times), min(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    tracker = Tracker(SystemClock())

    def nothing() -> None:
        pass

    def marked() -> None:
        with request("rank"):
            pass

    @request("rank")
    def decorated() -> None:
        pass

    install(tracker)
    rows = [
        ("an empty call (A)", nothing),
        ("an empty call (A again)", nothing),
        ("with request(...)", marked),
        ("a decorated call", decorated),
    ]
    print(f"{'what':28} {'median':>9} {'best':>9}")
    for name, work in rows:
        median, best = per_call_us(work, tracker.drain, options.calls, options.runs)
        print(f"{name:28} {median:6.2f} us {best:6.2f} us")
    install(None)
    median, best = per_call_us(marked, tracker.drain, options.calls, options.runs)
    print(f"{'with request(...), off':28} {median:6.2f} us {best:6.2f} us")
    for name, code in (("standard library alone", BASE), ("import midwatch.auto", IMPORT)):
        median, best = import_ms(code, options.runs)
        print(f"{name:28} {median:6.1f} ms {best:6.1f} ms")


if __name__ == "__main__":
    main()
