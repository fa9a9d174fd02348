"""Prints for how long at a time the agent's threads hold the GIL, and where.

    python tests/benchmarks/gil_stretches.py [--rounds 3]

A probe thread sleeps for 0.3 ms at a time and notes how late it gets the GIL back. The switch interval is a second, so
that nobody is made to let go: what it waits for is a whole stretch, which a service's threads would meet in pieces of
5 ms, once for every time that they let go of the GIL themselves. The agent's stack then shows where the stretch ended.

Machine and load make the probe late too: the A/A rows say how much. Of the agent's are only those delays during which
one of its threads was busy, and as much of each as that thread used the processor.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import midwatch
import torch

_NAP_S = 0.0003
_LONG_NS = 1_000_000
_NOTED_NS = 500_000
_DEPTH = 30
_SHOWN = 6
_FRAMES = 6


class Stretch(NamedTuple):
    """One time for which the probe did not get the GIL: how much of it was the agent's, and where that ended."""

    own_ns: int
    late_ns: int
    where: str


class Probe:
    """Measures from its start to its stop."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe")

    def __enter__(self) -> Probe:  # noqa: PYI034 - Self needs Python 3.11
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_args: object) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        nap_ns = int(_NAP_S * 1e9)
        while not self._stop.is_set():
            used, begin_ns = own_cpu_ns(), time.perf_counter_ns()
            time.sleep(_NAP_S)
            late_ns = time.perf_counter_ns() - begin_ns - nap_ns
            if late_ns >= _NOTED_NS:
                busy = {ident: ns - used.get(ident, ns) for ident, ns in own_cpu_ns().items()}
                ident = max(busy, key=lambda ident: busy[ident], default=0)
                self.stretches.append(Stretch(min(busy.get(ident, 0), late_ns), late_ns, where(ident)))


def own_cpu_ns() -> dict[int, int]:
    """Return the CPU time of each of the agent's threads, by ident."""
    idents = [thread.ident for thread in threading.enumerate() if thread.name.startswith("midwatch")]
    return {ident: time.clock_gettime_ns(time.pthread_getcpuclockid(ident)) for ident in idents if ident}


def where(ident: int) -> str:
    """Return where a thread stands: its innermost frames in Midwatch, and what the innermost one of all calls."""
    frame = sys._current_frames().get(ident)
    chain: list[str] = []
    while frame is not None and len(chain) < _FRAMES:
        if "midwatch" in frame.f_code.co_filename:
            chain.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(chain)


@contextmanager
def load(threads: int = 4) -> Iterator[Callable[[float], None]]:
    """Serve requests from some threads; yields a function that has each of them serve one that takes so long."""
    stop, slow_s = threading.Event(), [0.0] * threads
    model = torch.nn.Linear(8, 8)
    batch = torch.ones(2, 8)

    def deep(depth: int, seconds: float) -> None:
        if depth:
            deep(depth - 1, seconds)
        else:
            time.sleep(seconds)

    def serve(number: int) -> None:
        while not stop.is_set():
            seconds, slow_s[number] = slow_s[number], 0.0
            with midwatch.request("rank"), torch.inference_mode():
                model(batch)
                deep(_DEPTH, seconds or 0.004)

    def spike(seconds: float) -> None:
        slow_s[:] = [seconds] * threads
        time.sleep(seconds + 0.5)

    workers = [threading.Thread(target=serve, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield spike
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def measure(name: str, rounds: int, work: Callable[[], object]) -> None:
    """Print one row, and the agent's longest stretches below it."""
    stretches: list[Stretch] = []
    for _ in range(rounds):
        with Probe() as probe:
            work()
        stretches += probe.stretches
    cells = []
    for times_ns in ([s.late_ns for s in stretches], [s.own_ns for s in stretches]):
        long_ns = [ns for ns in times_ns if ns >= _LONG_NS]
        cells += [f"{len(long_ns) / rounds:9.1f}", f"{max(times_ns, default=0) / 1e6:6.1f} ms"]
    print(f"{name:24}", *cells)
    for stretch in sorted(stretches, reverse=True)[:_SHOWN]:
        if stretch.own_ns >= _NOTED_NS:
            print(f"    {stretch.own_ns / 1e6:6.2f} ms  {stretch.where}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.setswitchinterval(1.0)
    print(f"{'':24} {'the probe was late':>19} {'by the agent':>19}")
    print(f"{'a round':24}" + 2 * f" {'over 1 ms':>9} {'longest':>9}")
    with tempfile.TemporaryDirectory() as state, load() as spike:
        for label in ("A", "A again"):
            measure(f"{label}, quiet", options.rounds, lambda: time.sleep(5))
            measure(f"{label}, slow requests", options.rounds, lambda: spike(0.15))
        measure("agent, start", 1, lambda: start(state))
        measure("agent, quiet", options.rounds, lambda: time.sleep(5))
        measure("agent, slow requests", options.rounds, lambda: spike(0.15))
        measure("agent, windows", options.rounds, window)
        status = midwatch.status()
        print(f"{status.spikes} spikes, {status.windows} windows, drops {dict(status.drops)}")
        midwatch.stop()


def window() -> None:
    """Open a window, and let all that follows it happen."""
    midwatch.capture(seconds=0.2)
    time.sleep(5)


def start(state: str) -> None:
    """Start the agent, and let it warm up."""
    midwatch.start(collector="", state_dir=state, routine=0.0)
    time.sleep(5)


if __name__ == "__main__":
    main()
