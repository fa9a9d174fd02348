"""Reading traces beside HolisticTraceAnalysis 0.5.0, and the cost against size from 10 thousand to 5 million events.

    python tests/benchmarks/analyze.py                   both, about 5 minutes
    python tests/benchmarks/analyze.py --rounds 9        more rounds of the pairs
    python tests/benchmarks/analyze.py --sizes           the sizes alone
    python tests/benchmarks/analyze.py --traces FOLDER   where the traces lie (default ../shared/field/traces)

Each run is a process of its own; HolisticTraceAnalysis has an environment of its own (--hta, default .dev/hta), made
where it is missing. In each round it takes its turn with two runs of Midwatch, so that whatever else the machine does
meets all of them; the two runs of Midwatch show what a ratio is worth. "work" is loading and analysing, "process" is
all of it, with the interpreter's start and the imports; "cpu" is the CPU time of either, which other work on the
machine changes less. HolisticTraceAnalysis loads the trace and makes its idle, kernel, launch and queue analyses;
Midwatch finds all its facts. Ends with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from analysis.runs import HERE, ROOT, Run, hta_python, midwatch, run

PAIRS = {
    # trace: (times faster at least, share of the peak memory at most)
    "hta__df_index_resolver_df_index_resolver.json.gz": (6.0, 0.5),
    "hta__trace_diff_control_control.json.gz": (6.0, 0.5),
    "tracelens__inference_xdit_sd_3.5_profile_trace_rank_0.json.gz": (6.0, 0.7),
}
GROWN = "hta__trace_diff_control_control.json.gz"
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_500_000, 5_000_000)
LINEAR = 1.5
"""An event of a large trace may cost so many times what one of a smaller trace does, from 100 thousand on, in CPU."""


def compare(folder: Path, python: Path, rounds: int) -> bool:
    """Print the pairs; return whether all targets are met."""
    print(f"{'trace':32} {'':10} {'HTA':>8} {'Midwatch':>9} {'ratio':>6} {'of each round':>15}   {'A/A':>5}   target")
    met = True
    for name, (faster, share) in PAIRS.items():
        trace = folder / name
        midwatch(trace)  # the file, and the compiled modules, are in the cache from here on
        turns = [(run(python, "hta_side.py", trace), midwatch(trace), midwatch(trace)) for _ in range(rounds)]
        work = _row(name, "work s", turns, "work_s", faster)
        _row("", "work cpu s", turns, "cpu_s", 0.0)
        process = _row("", "process s", turns, "wall_s", faster)
        _row("", "all cpu s", turns, "used_s", 0.0)
        memory = _row("", "peak MB", turns, "peak_mb", 1 / share)
        met = met and work >= faster and process >= faster and memory >= 1 / share
    return met


def _row(name: str, what: str, turns: list[tuple[Run, Run, Run]], field: str, least: float) -> float:
    theirs, ours, again = ([getattr(one, field) for one in side] for side in zip(*turns, strict=True))
    ratios = sorted(a / b for a, b in zip(theirs, ours, strict=True))
    ratio = statistics.median(theirs) / statistics.median(ours)
    same = statistics.median(ours) / statistics.median(again)
    target = f">= {least:.2f} {'met' if ratio >= least else 'MISSED'}" if least else ""
    print(
        f"{name.removesuffix('.json.gz')[:32]:32} {what:10} {statistics.median(theirs):8.2f} "
        f"{statistics.median(ours):9.3f} {ratio:6.2f} {ratios[0]:6.2f} to {ratios[-1]:5.2f}   {same:5.2f}   {target}"
    )
    return ratio


def grow(folder: Path, scratch: Path, sizes: tuple[int, ...]) -> bool:
    """Print the cost against the size; return whether it grows no faster than the size."""
    print(f"\n{'events':>9} {'MB packed':>10} {'work s':>8} {'cpu s':>7} {'us/event':>9} {'peak MB':>8}  caveats")
    costs: dict[int, float] = {}
    for size in sizes:
        path = scratch / "grown.json.gz"
        subprocess.run([sys.executable, HERE / "grow.py", folder / GROWN, str(size), path], check=True)
        runs = [midwatch(path, 8 << 30) for _ in range(3 if size <= 1_000_000 else 1)]
        best = min(runs, key=lambda one: one.cpu_s)
        costs[size] = best.cpu_s / best.events
        print(
            f"{best.events:9,} {path.stat().st_size / 1e6:10.1f} {best.work_s:8.3f} {best.cpu_s:7.2f} "
            f"{costs[size] * 1e6:9.2f} {best.peak_mb:8.0f}  {' '.join(best.caveats)}",
            flush=True,
        )
        path.unlink()
    worst = max((costs[b] / costs[a], a, b) for a in sizes for b in sizes if a >= 100_000 and b >= a)
    print(f"an event of {worst[2]:,} costs {worst[0]:.2f} times what one of {worst[1]:,} does (at most {LINEAR})")
    return worst[0] <= LINEAR


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared" / "field" / "traces")
    parser.add_argument("--hta", type=Path, default=ROOT / ".dev" / "hta", help="environment of HolisticTraceAnalysis")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", action="store_true", help="the cost against the size alone")
    parser.add_argument("--pairs", action="store_true", help="the pairs alone")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="events of the largest trace")
    arguments = parser.parse_args()
    missing = [name for name in PAIRS if not (arguments.traces / name).is_file()]
    if missing:
        parser.error(f"{arguments.traces} has no {missing[0]}; name the folder of the traces with --traces")
    scratch = ROOT / ".dev"
    scratch.mkdir(exist_ok=True)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
    met = True
    if not arguments.sizes:
        met = compare(arguments.traces, hta_python(arguments.hta), arguments.rounds)
    if not arguments.pairs:
        met = grow(arguments.traces, scratch, tuple(s for s in SIZES if s <= arguments.most)) and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
