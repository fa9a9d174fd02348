"""Prints the latencies of a service while its collector is killed and restarted, beside the same load without an agent.

Runs without an agent stand before, between and after those with one: what they differ among themselves is the A/A
spread. Three stretches are timed, at the same age of each run: the last seconds before the kill, which tell what the
agent costs anyway, the time without a collector, and the first seconds with the new one, which starts on the same
machine and takes its processor too. Then it tells whether all that was acknowledged, and all that waited on disk, is in
the store, and once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from faults import latency, runner
from faults.expected import ALL, HTTP, SPIKE, WINDOWS_ON, Expected
from faults.outages import Collector

BEFORE_S = 5.0
DOWN_S = 10.0
AFTER_S = 5.0
RATE = 200.0
"""On two cores this keeps the service and its client busy for a third of the time."""
STRETCHES = {
    "with a collector": (BEFORE_S - 3.0, BEFORE_S),
    "without a collector": (BEFORE_S, BEFORE_S + DOWN_S),
    "after the restart": (BEFORE_S + DOWN_S, BEFORE_S + DOWN_S + AFTER_S),
}
"""What is timed, in seconds since the first request."""


def serve(
    expected: Expected, rate: float, folder: Path, device: str, address: str, meanwhile: Callable[[], None]
) -> list[latency.Span]:
    """Run one service to its end, with the agent where there is an address, and return its requests."""
    latencies, log = folder / "latencies", folder / "service.log"
    latencies.unlink(missing_ok=True)
    seconds = BEFORE_S + DOWN_S + AFTER_S + 5.0
    arguments = [str(expected.path), "--seconds", str(seconds), "--device", device, "--latencies", str(latencies)]
    arguments += ["--rate", str(rate)] if rate else []
    environment = {
        "MIDWATCH_ENABLED": "1" if address else "0",
        "MIDWATCH_SERVICE": expected.name,
        "MIDWATCH_COLLECTOR": address,
        "MIDWATCH_STATE_DIR": str(folder / "state"),
        "MIDWATCH_ENGINE": "off",  # what windows cost is another bench's question
    }
    with runner.process(arguments, log, environment) as running:
        runner.poll("the service", latencies.exists, runner.START_S, running, log)
        meanwhile()
        running.wait(seconds + 60.0)
    return latency.read(latencies)


def timed(title: str, requests: list[latency.Span]) -> dict[str, latency.Row]:
    """The latencies in each of the stretches."""
    began = min(begin for begin, _ in requests)
    return {
        stretch: latency.row(title, requests, [(began + int(start_s * 1e9), began + int(end_s * 1e9))])
        for stretch, (start_s, end_s) in STRETCHES.items()
    }


def outage(collector: Collector) -> None:
    """Let it serve for a while, kill it, and start it again after `DOWN_S`."""
    until = time.monotonic() + BEFORE_S
    collector.watch(lambda: time.monotonic() >= until)
    collector.kill()
    time.sleep(DOWN_S)
    collector.restart()
    collector.ready()


def main() -> int:
    """Run the services in turn; 0 when nothing is missing and nothing is stored twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cuda", "cpu"))
    parser.add_argument("--rounds", type=int, default=3, help="of one run without and one with an agent, 25 s each")
    services = {one.name: one for one in (*ALL, SPIKE, HTTP)}
    parser.add_argument(
        "--service",
        default=HTTP.name,
        choices=services,
        help=f"{HTTP.name} (the default) is asked over HTTP by another process; {WINDOWS_ON} feels every disturbance "
        f"of the host; {SPIKE.name} has planted spikes, so more is uploaded",
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=RATE,
        help=f"requests a second of {HTTP.name}, due whatever became of the ones before (%(default)g); 0: each follows "
        "the last one's answer, as in all other services, and a slower service is asked less",
    )
    given = parser.parse_args()
    expected = services[given.service]
    rate = given.rate if expected is HTTP else 0.0
    rows: list[dict[str, latency.Row]] = []
    with tempfile.TemporaryDirectory(prefix="midwatch-outage-") as name:
        folder = Path(name)
        collector = Collector(folder)
        try:
            for _ in range(given.rounds):
                rows.append(timed("no agent", serve(expected, rate, folder, given.device, "", lambda: None)))
                requests = serve(expected, rate, folder, given.device, collector.address, lambda: outage(collector))
                rows.append(timed("collector killed", requests))
            rows.append(timed("no agent", serve(expected, rate, folder, given.device, "", lambda: None)))
            serve(expected, rate, folder, given.device, collector.address, collector.delivered)
        finally:
            collector.end()
        load = f"{rate:g} requests a second" if rate else "each request after the last one's answer"
        print(f"{expected.name} on {given.device}, {os.cpu_count()} cores, {load}; milliseconds")
        for stretch in STRETCHES:
            _print(stretch, [run[stretch] for run in rows])
        return 0 if collector.tell() else 1


def _print(stretch: str, rows: list[latency.Row]) -> None:
    print(stretch)
    for row in rows:
        figures = f"p50 {row.p50_ms:.3f}  p99 {row.p99_ms:.3f}  worst {row.worst_ms:.1f}"
        print(f"  {row.name:<18} {row.requests:>8} requests  {figures}")
    for title in ("no agent", "collector killed"):
        p99s = [row.p99_ms for row in rows if row.name == title]
        print(f"  p99 {title:<18} {min(p99s):.3f} to {max(p99s):.3f}, median {statistics.median(p99s):.3f}")
    for title, ratios in (("A/A", _ratios(rows[::2], 1)), ("collector killed", _ratios(rows, 2))):
        if ratios:
            mean = statistics.geometric_mean(ratios)
            print(f"  p99 ratio {title:<18} {mean:.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


def _ratios(rows: list[latency.Row], step: int) -> list[float]:
    """The p99 of every ``step``-th run by that of its two neighbours, which stand for the same state of the machine."""
    p99s = [row.p99_ms for row in rows]
    middles = range(1, len(p99s) - 1, step)
    return [p99s[at] / statistics.geometric_mean((p99s[at - 1], p99s[at + 1])) for at in middles]


if __name__ == "__main__":
    sys.exit(main())
