"""Prints the latencies of a service while its collector is killed and restarted, beside two without an agent.

The three processes serve side by side, and are asked in turn for some seconds each, in random order, so that the state
of the machine is the same for all: what differs between the two without an agent is chance. Each round has three such
cycles: with a collector, without one (it is killed with SIGKILL), and from the moment in which it is started again.
Ratios are of one cycle each; printed are the geometric mean over the rounds with its standard error, which tells a
constant difference from chance, and the range of single cycles, which tells what one outage could show. Either of the
two without an agent may stand first, so the range for these is that of their ratios and of the inverse.

What the agent's own background does with the requests of its turn may fall into another's turn. Where all share two
cores that would hide a part of its cost: there `outage.py` is the one to ask, which runs one service at a time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from faults import latency, runner
from faults.expected import HTTP
from faults.outages import Collector

STRETCHES = ("with a collector", "without a collector", "after the restart")
SERVICES = ("no agent (A)", "no agent (A/A)", "agent")
SECONDS = 10.0
"""Of one cycle. A collector is away for that long."""
RATE = 200.0
WARMUP_CYCLES = 3
"""Past the half minute in which an agent learns the service's modules and routes."""
_ASKER = Path(__file__).parent / "faults" / "asking.py"

Cycle = list[list[float]]
"""The latencies of each of the services, milliseconds."""


def start(stack: ExitStack, folder: Path, device: str, agent: bool, address: str, number: int) -> int:
    """Start one service, and return its port once it answers."""
    port = int(runner.free_address().rpartition(":")[2])
    log = folder / f"service-{number}.log"
    environment = {
        "MIDWATCH_ENABLED": "1" if agent else "0",
        "MIDWATCH_SERVICE": HTTP.name,
        "MIDWATCH_COLLECTOR": address,
        "MIDWATCH_STATE_DIR": str(folder / "state"),
        "MIDWATCH_ENGINE": "off",  # what windows cost is another bench's question
    }
    arguments = [str(HTTP.path), "--port", str(port), "--device", device]
    running = stack.enter_context(runner.process(arguments, log, environment))
    runner.poll("the service", lambda: runner.listens(port), runner.START_S, running, log)
    return port


def cycle(ports: Sequence[int], collector: Collector) -> Cycle:
    """Ask each of the services for its share of `SECONDS`, by a process of its own."""
    arguments = [str(_ASKER), "--seconds", str(SECONDS / len(ports)), "--rate", str(RATE), *map(str, ports)]
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as asker:
        collector.watch(lambda: asker.poll() is not None)
        told = asker.communicate()[0]
    if asker.returncode:
        raise RuntimeError(f"the client ended with {asker.returncode}")
    return json.loads(told)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of them lies, in whatever order they are."""
    return latency.quantile(sorted(values), share)


def ratios(cycles: Sequence[Cycle], share: float, of: int, to: Sequence[int]) -> list[float]:
    """One service's quantile by the geometric mean of others', in each cycle."""
    return [
        quantile(latencies[of], share) / statistics.geometric_mean([quantile(latencies[other], share) for other in to])
        for latencies in cycles
    ]


def mean(values: Sequence[float]) -> str:
    """Their geometric mean and its standard error."""
    logs = [math.log(value) for value in values]
    middle = math.exp(statistics.mean(logs))
    return f"{middle:.3f} ± {middle * statistics.stdev(logs) / math.sqrt(len(logs)):.3f}"


def tell(cycles: Sequence[Cycle]) -> None:
    """Print one stretch's rows and ratios."""
    for number, name in enumerate(SERVICES):
        pooled = [one for latencies in cycles for one in latencies[number]]
        figures = "  ".join(f"p{100 * share:g} {quantile(pooled, share):.3f}" for share in (0.5, 0.95, 0.99))
        print(f"  {name:<14} {len(pooled):>6} requests  {figures}  worst {max(pooled):.1f}")
    for share in (0.5, 0.99):
        chance = ratios(cycles, share, 1, (0,))
        both = [*chance, *(1 / one for one in chance)]
        low, high = min(both), max(both)
        agent = ratios(cycles, share, 2, (0, 1))
        inside = sum(low <= one <= high for one in agent)
        print(
            f"  p{100 * share:g} ratio: A/A {mean(chance)}, single cycles {low:.2f} to {high:.2f}; "
            f"agent {mean(agent)}, {min(agent):.2f} to {max(agent):.2f}, {inside} of {len(agent)} inside"
        )


def main() -> int:
    """Run the cycles; 0 when nothing is missing and nothing is stored twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cuda", "cpu"))
    parser.add_argument("--rounds", type=int, default=8, help="of three cycles, 10 s each; two at least (%(default)d)")
    given = parser.parse_args()
    seen: dict[str, list[Cycle]] = {stretch: [] for stretch in STRETCHES}
    with tempfile.TemporaryDirectory(prefix="midwatch-outage-") as name, ExitStack() as stack:
        folder = Path(name)
        collector = Collector(folder)
        stack.callback(collector.end)
        ports = [
            start(stack, folder, given.device, service == SERVICES[-1], collector.address, number)
            for number, service in enumerate(SERVICES)
        ]
        for _ in range(WARMUP_CYCLES):
            cycle(ports, collector)
        for _ in range(given.rounds):
            seen[STRETCHES[0]].append(cycle(ports, collector))
            collector.kill()
            seen[STRETCHES[1]].append(cycle(ports, collector))
            collector.restart()
            seen[STRETCHES[2]].append(cycle(ports, collector))
            collector.ready()
        collector.delivered()
        print(f"{HTTP.name} on {given.device}, {os.cpu_count()} cores, {RATE:g} requests a second; milliseconds")
        for stretch, cycles in seen.items():
            print(stretch)
            tell(cycles)
        return 0 if collector.tell() else 1


if __name__ == "__main__":
    sys.exit(main())
