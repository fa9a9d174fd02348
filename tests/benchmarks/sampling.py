"""What a look at the stacks costs: time with the GIL per sample, by depth and by number of threads.

    python tests/benchmarks/sampling.py

The first table is the bare walk; the second one whole turns of the watchdog and of a window's sampler; the third what
the first sight of a place costs, once, when it is named. The last line is CPU time per second of the watchdog's thread
while requests of 5 ms come and go inside their deadlines.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agent"))

from midwatch.clock import SystemClock
from midwatch.requests.tracker import Tracker
from midwatch.watch.frames import current_frames, look
from midwatch.watch.lockprobe import LockProbe
from midwatch.watch.lockwaits import LockWaits
from midwatch.watch.sampler import SamplingRound
from midwatch.watch.stacks import Stacks
from midwatch.watch.watchdog import Watchdog

ROUNDS = 400


def sleep_at(depth: int, ready: threading.Event, done: threading.Event) -> None:
    """Stand still ``depth`` calls deep."""
    if depth > 0:
        sleep_at(depth - 1, ready, done)
    else:
        ready.set()
        done.wait()


class Sleepers:
    """Threads that stand still at one depth."""

    def __init__(self, threads: int, depth: int) -> None:
        self._done = threading.Event()
        self.threads = []
        for _ in range(threads):
            ready = threading.Event()
            # Above and below it are five frames of `threading`.
            thread = threading.Thread(target=sleep_at, args=(max(0, depth - 5), ready, self._done))
            thread.start()
            ready.wait()
            self.threads.append(thread)
        time.sleep(0.02)

    def end(self) -> None:
        """Let them go."""
        self._done.set()
        for thread in self.threads:
            thread.join()


def cost_us(work: Callable[[], object]) -> tuple[float, float]:
    """Return the median and the 99th percentile of CPU time, in microseconds."""
    times = []
    for _ in range(ROUNDS):
        before = time.thread_time_ns()
        work()
        times.append((time.thread_time_ns() - before) / 1000)
    times.sort()
    return statistics.median(times), times[int(len(times) * 0.99)]


def walks() -> None:
    """Print the cost of listing the frames and walking every thread's stack."""
    print(f"\n{'threads':>8} {'depth':>6} {'us a turn':>10} {'p99':>8} {'us a stack':>11}")
    for threads in (1, 4, 16, 64):
        for depth in (8, 24, 48):
            sleepers, stacks = Sleepers(threads, depth), Stacks()
            idents = [thread.ident or 0 for thread in sleepers.threads]

            def turn(stacks: Stacks = stacks, idents: list[int] = idents) -> None:
                look(lambda frames: [stacks.walk(frames[ident]) for ident in idents])

            median, p99 = cost_us(turn)
            print(f"{threads:8d} {depth:6d} {median:10.1f} {p99:8.1f} {median / threads:11.2f}")
            sleepers.end()


def turns() -> None:
    """Print the cost of whole turns while requests are overdue on as many threads."""
    print(f"\n{'requests':>9} {'depth':>6} {'watchdog us':>12} {'p99':>8} {'window us':>10} {'p99':>8}")
    for threads in (1, 4, 16):
        for depth in (24, 48):
            sleepers, clock, stacks = Sleepers(threads, depth), SystemClock(), Stacks()
            tracker = Tracker(clock)
            for thread in sleepers.threads:
                mark = tracker.begin(f"r{thread.ident}", is_async=False, bind=False)
                if mark is not None:
                    mark.thread_ident, mark.deadline_ns = thread.ident or 0, mark.start_ns + 1
            dog = Watchdog(tracker, stacks, LockProbe(), clock)
            locks = LockWaits(stacks, LockProbe(), clock)
            window = SamplingRound(tracker, stacks, locks, clock, frames=current_frames, interval_ns=1)
            dog.turn()

            def turn(dog: Watchdog = dog) -> None:
                dog._next_look_ns = 0
                dog.turn()

            watchdog, sampler = cost_us(turn), cost_us(window.sample)
            print(
                f"{threads:9d} {depth:6d} {watchdog[0]:12.1f} {watchdog[1]:8.1f} {sampler[0]:10.1f} {sampler[1]:8.1f}"
            )
            sleepers.end()


def naming() -> None:
    """Print what it costs to name places for the first time: it happens once for each, away from the requests."""
    stacks = Stacks()
    spots = [spot for frame in [sys._getframe(), *current_frames().values()] for spot in stacks.walk(frame)]
    code = statistics.quantiles.__code__
    first = [stacks.walk(frame) for frame in current_frames().values()]
    before = time.thread_time_ns()
    names = {spot.frame for spot in spots}
    took = (time.thread_time_ns() - before) / 1000
    print(f"\nnaming {len(names)} places for the first time: {took / len(spots):.0f} us each ({len(first)} stacks)")
    probe = LockProbe()
    before = time.thread_time_ns()
    probe._code(code)
    print(f"reading the locks of one function: {(time.thread_time_ns() - before) / 1000:.0f} us, once")


def calm() -> None:
    """Print the watchdog's own CPU time under requests that are never overdue."""
    clock = SystemClock()
    tracker = Tracker(clock)
    tracker.route("rank").limit_ns = 50_000_000
    dog = Watchdog(tracker, Stacks(), LockProbe(), clock)
    dog.start()
    thread = next(t for t in threading.enumerate() if t.name == "midwatch-watchdog")
    stat = Path(f"/proc/self/task/{thread.native_id}/schedstat")
    for pause_ms in (0.0, 5.0, 100.0):
        before, begun, requests = int(stat.read_text().split()[0]), time.perf_counter(), 0
        while time.perf_counter() - begun < 3.0:
            mark = tracker.begin("rank", is_async=False)
            time.sleep(0.005)
            if mark is not None:
                tracker.end(mark)
            requests += 1
            if pause_ms:
                time.sleep(pause_ms / 1000)
        spent = int(stat.read_text().split()[0]) - before
        seconds = time.perf_counter() - begun
        print(
            f"calm, {requests / seconds:5.0f} requests/s of 5 ms, {pause_ms:3.0f} ms apart: "
            f"{spent / seconds / 1e7:.3f} % of a core"
        )
    dog.stop()


if __name__ == "__main__":
    print(f"Python {sys.version.split()[0]}; CPU time of the sampling thread")
    walks()
    turns()
    naming()
    print()
    calm()
