"""Prints what the agent costs a service while nothing is wrong: p50, p99, its threads' CPU, resident memory.

    python tests/benchmarks/always_on.py [--device cuda] [--seconds 20] [--pairs 6]

Each pair runs the same service three times in processes of their own, in turning order: plain (A), plain again (A/A),
and with `import midwatch.auto`. Figures are ratios within a pair, medians over the pairs; the A/A row says how much of
them is noise.
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

WARM_S = 4.0
_TICKS = os.sysconf("SC_CLK_TCK")


def serve(device: str, seconds: float) -> None:
    """Serve requests of some milliseconds from one thread, and print what they took."""
    if os.environ.get("BENCH_AGENT") == "1":
        import midwatch.auto
    import midwatch
    import torch

    torch.set_num_threads(1)
    layers = [torch.nn.Linear(256, 256) for _ in range(24)]
    model = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.ReLU()))).to(device).eval()
    batch = torch.randn(32, 256, device=device)

    @midwatch.request("rank")
    def rank() -> float:
        return float(model(batch).mean())

    with torch.inference_mode():
        begin = time.monotonic()
        while time.monotonic() - begin < WARM_S:
            rank()
        cpu_s, wall_s = own_cpu_s(), time.monotonic()
        times = []
        while time.monotonic() - wall_s < seconds:
            start_ns = time.perf_counter_ns()
            rank()
            times.append((time.perf_counter_ns() - start_ns) / 1e6)
        share = (own_cpu_s() - cpu_s) / (time.monotonic() - wall_s)
    times.sort()
    figures = {
        "p50": statistics.median(times),
        "p99": times[int(len(times) * 0.99)],
        "max": times[-1],
        "requests": len(times),
        "share": share,
        "rss_mib": rss_mib(),
    }
    midwatch.stop()
    print(json.dumps(figures))


def own_cpu_s() -> float:
    """Return the CPU time of the agent's threads so far, in seconds."""
    total = 0
    for thread in threading.enumerate():
        if thread.name.startswith("midwatch"):
            fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def rss_mib() -> float:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def run(device: str, seconds: float, state: str, *, agent: bool) -> dict[str, float]:
    """Run one service in a process of its own."""
    environ = {
        **os.environ,
        "BENCH_AGENT": str(int(agent)),
        "MIDWATCH_STATE_DIR": state,
        "MIDWATCH_ROUTINE": "0",
        "MIDWATCH_COLLECTOR": "",
    }
    command = [sys.executable, __file__, "--serve", "--device", device, "--seconds", str(seconds)]
    done = subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.device, options.seconds)
        return
    ratios: dict[tuple[str, str], list[float]] = {}
    shares, memory, plain_p50 = [], [], []
    with tempfile.TemporaryDirectory() as state:
        for number in range(options.pairs):
            order = ["plain", "twin", "agent"]
            order = order[number % 3 :] + order[: number % 3]
            seen = {name: run(options.device, options.seconds, state, agent=name == "agent") for name in order}
            for name in ("twin", "agent"):
                for figure in ("p50", "p99", "max"):
                    ratios.setdefault((name, figure), []).append(seen[name][figure] / seen["plain"][figure] - 1)
            shares.append(seen["agent"]["share"])
            memory.append(seen["agent"]["rss_mib"] - seen["plain"]["rss_mib"])
            plain_p50.append(seen["plain"]["p50"])
    print(
        f"{options.device}, {options.pairs} pairs of {options.seconds:.0f} s, p50 {statistics.median(plain_p50):.2f} ms"
    )
    print(f"{'':8} {'p50':>20} {'p99':>20} {'max':>20}")
    for name, label in (("twin", "A/A"), ("agent", "agent")):
        cells = [_spread(ratios[name, figure]) for figure in ("p50", "p99", "max")]
        print(f"{label:8} {cells[0]:>20} {cells[1]:>20} {cells[2]:>20}")
    print(f"its threads: {statistics.median(shares):.2%} of a core; memory: {statistics.median(memory):+.1f} MiB")


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):+.1%} ({min(values):+.1%}..{max(values):+.1%})"


if __name__ == "__main__":
    main()
