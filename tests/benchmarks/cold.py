"""Prints what a call costs that nobody made for a while: the agent's own `judge`, and a touch of 300 pages.

    python tests/benchmarks/cold.py

The first row of each is the call after the pause, the second the same call again, at once. What lies between them is
memory: caches, translations, and on virtual machines pages that the host has put aside. An agent that wakes seldom pays
the first row each time, and holds the GIL meanwhile (docs/decisions/0002-turns.md).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

from midwatch.detect.detector import RouteDetector

PAUSES_S = (0.001, 0.005, 0.02, 0.1, 0.25, 1.0)
PAGES = 300
TOTAL_S = 6.0
"""Of pauses for each row, 200 at most."""


def twice_us(work: Callable[[], object], pause_s: float) -> tuple[float, float]:
    """Return the medians of the first call after each pause and of the one after it, in microseconds."""
    first, again = [], []
    for _ in range(min(200, max(5, int(TOTAL_S / pause_s)))):
        time.sleep(pause_s)
        times = []
        for _ in range(2):
            begin_ns = time.perf_counter_ns()
            work()
            times.append((time.perf_counter_ns() - begin_ns) / 1e3)
        first.append(times[0])
        again.append(times[1])
    return statistics.median(first), statistics.median(again)


def main() -> None:
    """Print a row for each pause."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    detector = RouteDetector()
    for number in range(1_000):
        detector.judge(1_000_000 + number)
    every_page = memoryview(bytearray(4096 * PAGES))[::4096]
    print(f"{os.cpu_count()} cores; microseconds, medians")
    print(f"{'after a pause of':<18} {'judge':>8} {'again':>8} {f'{PAGES} pages':>12} {'again':>8}")
    for pause_s in PAUSES_S:
        judged = twice_us(lambda: detector.judge(1_000_000), pause_s)
        touched = twice_us(lambda: bytes(every_page), pause_s)
        print(f"{pause_s * 1e3:>15.0f} ms {judged[0]:>8.1f} {judged[1]:>8.1f} {touched[0]:>12.1f} {touched[1]:>8.1f}")


if __name__ == "__main__":
    main()
