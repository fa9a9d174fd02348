"""Prints what the agent costs a service while nothing is wrong: p50, p99, the CPU of each of its threads, memory.

    python tests/benchmarks/always_on.py [--device cuda] [--layers 24] [--seconds 20] [--pairs 6]

Each pair runs the same service three times in processes of their own, in turning order: plain (A), plain again (A/A),
and with `import midwatch.auto`. Figures are ratios within a pair, medians over the pairs; the A/A row says how much of
them is noise.

A thread's cost is its CPU time as a share of one core, with how often it woke and what each wake took. Both halves of
the run stand beside it, as A and A again. No window opens: a noisy host makes spikes, and their number is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

WARM_S = 4.0

Used = dict[str, tuple[float, int]]
"""By thread of the agent's: CPU seconds and wakes since its start."""


def serve(device: str, layers: int, seconds: float) -> None:
    """Serve requests of some milliseconds from one thread, and print what they took."""
    if os.environ.get("BENCH_AGENT") == "1":
        import midwatch.auto
    import midwatch
    import torch

    torch.set_num_threads(1)
    linear = [torch.nn.Linear(256, 256) for _ in range(layers)]
    model = torch.nn.Sequential(*(part for layer in linear for part in (layer, torch.nn.ReLU()))).to(device).eval()
    batch = torch.randn(32, 256, device=device)

    @midwatch.request("rank")
    def rank() -> float:
        return float(model(batch).mean())

    with torch.inference_mode():
        begin = time.monotonic()
        while time.monotonic() - begin < WARM_S:
            rank()
        times: list[float] = []
        halves = []
        for _ in range(2):
            used, begin = own_use(), time.monotonic()
            while time.monotonic() - begin < seconds / 2:
                start_ns = time.perf_counter_ns()
                rank()
                times.append((time.perf_counter_ns() - start_ns) / 1e6)
            halves.append(_shares(used, own_use(), time.monotonic() - begin))
    times.sort()
    figures = {
        "p50": statistics.median(times),
        "p99": times[int(len(times) * 0.99)],
        "max": times[-1],
        "requests": len(times),
        "threads": halves,
        "rss_mib": rss_mib(),
        "spikes": midwatch.status().spikes,
    }
    midwatch.stop()
    print(json.dumps(figures))


def own_use() -> Used:
    """Return what each of the agent's threads has used so far."""
    used = {}
    for thread in threading.enumerate():
        if thread.name.startswith("midwatch") and thread.ident is not None:
            cpu_ns = time.clock_gettime_ns(time.pthread_getcpuclockid(thread.ident))
            status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
            wakes = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
            used[thread.name.removeprefix("midwatch-")] = (cpu_ns / 1e9, wakes)
    return used


def _shares(before: Used, after: Used, wall_s: float) -> dict[str, tuple[float, float]]:
    """Return the share of a core and the wakes a second of each thread."""
    return {
        name: ((cpu_s - before[name][0]) / wall_s, (wakes - before[name][1]) / wall_s)
        for name, (cpu_s, wakes) in after.items()
        if name in before
    }


def rss_mib() -> float:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def run(options: argparse.Namespace, state: str, *, agent: bool) -> dict[str, Any]:
    """Run one service in a process of its own."""
    environ = {
        **os.environ,
        "BENCH_AGENT": str(int(agent)),
        "MIDWATCH_STATE_DIR": state,
        "MIDWATCH_ROUTINE": "0",
        "MIDWATCH_WINDOWS_PER_HOUR": "0",
        "MIDWATCH_COLLECTOR": "",
    }
    command = [sys.executable, __file__, "--serve", "--device", options.device]
    command += ["--layers", str(options.layers), "--seconds", str(options.seconds)]
    done = subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", type=int, default=24, help="length of a request")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.device, options.layers, options.seconds)
        return
    ratios: dict[tuple[str, str], list[float]] = {}
    halves: list[list[dict[str, tuple[float, float]]]] = []
    memory, plain_p50, spikes = [], [], []
    with tempfile.TemporaryDirectory() as state:
        for number in range(options.pairs):
            order = ["plain", "twin", "agent"]
            order = order[number % 3 :] + order[: number % 3]
            seen = {name: run(options, state, agent=name == "agent") for name in order}
            for name in ("twin", "agent"):
                for figure in ("p50", "p99", "max"):
                    ratios.setdefault((name, figure), []).append(seen[name][figure] / seen["plain"][figure] - 1)
            halves.append(seen["agent"]["threads"])
            spikes.append(seen["agent"]["spikes"])
            memory.append(seen["agent"]["rss_mib"] - seen["plain"]["rss_mib"])
            plain_p50.append(seen["plain"]["p50"])
    print(
        f"{options.device}, {options.pairs} pairs of {options.seconds:.0f} s, p50 {statistics.median(plain_p50):.2f} ms"
    )
    print(f"{'':8} {'p50':>20} {'p99':>20} {'max':>20}")
    for name, label in (("twin", "A/A"), ("agent", "agent")):
        cells = [_spread(ratios[name, figure]) for figure in ("p50", "p99", "max")]
        print(f"{label:8} {cells[0]:>20} {cells[1]:>20} {cells[2]:>20}")
    _print_threads(halves)
    print(f"memory: {statistics.median(memory):+.1f} MiB; spikes a run: {statistics.median(spikes):.0f}")


def _print_threads(runs: list[list[dict[str, tuple[float, float]]]]) -> None:
    """Print a row for each of the agent's threads, and one for all."""
    names = sorted({name for halves in runs for half in halves for name in half})
    print(f"{'thread':10} {'of a core':>20} {'wakes/s':>9} {'us each':>9} {'A':>9} {'A again':>9}")
    for name in [*names, "all"]:
        chosen = names if name == "all" else [name]
        cpu, wakes = ([[_sum(half, chosen, part) for half in halves] for halves in runs] for part in (0, 1))
        whole, often = ([statistics.mean(halves) for halves in figures] for figures in (cpu, wakes))
        first, second = (statistics.median(halves[number] for halves in cpu) for number in (0, 1))
        each_us = statistics.median(whole) / max(statistics.median(often), 1e-9) * 1e6
        print(
            f"{name:10} {_spread(whole, '.2%'):>20} {statistics.median(often):9.1f} {each_us:9.0f} "
            f"{first:9.2%} {second:9.2%}"
        )


def _sum(half: dict[str, tuple[float, float]], names: list[str], part: int) -> float:
    return sum(half[name][part] for name in names if name in half)


def _spread(values: list[float], form: str = "+.1%") -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}}..{max(values):{form}})"


if __name__ == "__main__":
    main()
