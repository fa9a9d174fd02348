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
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from faults import latency, runner
from faults.expected import ALL, HTTP, SPIKE, WINDOWS_ON, Expected
from midwatch_client.api import Client

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
_LOOK_S = 0.01
_DELIVERED_S = 30.0
"""Until what waited on disk has arrived: a companion asks for a collector that was away every ten seconds or so."""


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


class Collector:
    """A collector that can be killed and started again on the same database; and the spool of its agents."""

    def __init__(self, folder: Path) -> None:
        self.address = runner.free_address()
        self._database = folder / "outage.db"
        self._spool = folder / "state" / "spool"
        self._log = folder / "collector.log"
        self.acknowledged: set[str] = set()
        """Batches that had left the spool, or lay in the store, when the collector was killed."""
        self.waited: set[str] = set()
        """Batches that waited in the spool when the collector was started again."""
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        arguments = ["-m", "midwatch_client", "collector", "--db", str(self._database), "--grpc", self.address]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log)
        with Client(self.address) as client:
            runner.poll("the collector", lambda: runner.answers(client), runner.START_S, self._process, self._log)

    def outage(self) -> None:
        """Let it serve for a while, kill it, and start it again after `DOWN_S`."""
        seen: set[str] = set()
        until = time.monotonic() + BEFORE_S
        while time.monotonic() < until:
            seen |= self.spooled()
            time.sleep(_LOOK_S)
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.acknowledged |= (seen - self.spooled()) | set(self.stored("batch_id", "batches"))
        time.sleep(DOWN_S)
        self.waited |= self.spooled()
        self.start()

    def delivered(self) -> None:
        """Wait until nothing waits on disk any more: another service's companion takes what an ended one left."""
        until = time.monotonic() + _DELIVERED_S
        while self.waited & self.spooled() and time.monotonic() < until:
            time.sleep(_LOOK_S)

    def spooled(self) -> set[str]:
        """The batches that wait on disk: each is one file, which goes when the batch is acknowledged."""
        return {path.name.split(".")[3] for path in self._spool.glob("*/*.pb")}

    def stored(self, columns: str, table: str) -> list[str]:
        """A row of text for each row of a table."""
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)) as database:
            rows = database.execute(f"SELECT {columns} FROM {table}")
            return [" ".join(map(str, row)) for row in rows]

    def end(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(runner.STOP_S)

    def tell(self) -> bool:
        """Print what became of all that was sent; return whether all is there, and once."""
        stored = set(self.stored("batch_id", "batches"))
        lost, late = self.acknowledged - stored, self.waited - stored
        print(f"batches: {len(self.acknowledged)} acknowledged before a kill, {len(lost)} of them missing")
        print(f"         {len(self.waited)} waited on disk in an outage, {len(late)} of them missing")
        print(f"         {len(self.spooled())} still wait on disk")
        twice = 0
        for columns, table in (
            ("agent_id, route, start_unix_ns", "route_stats"),
            ("agent_id, unix_ns", "host_samples"),
            ("spike_id", "spikes"),
        ):
            rows = self.stored(columns, table)
            twice += len(rows) - len(set(rows))
            print(f"{table}: {len(rows)} stored, {len(rows) - len(set(rows))} of them twice")
        return not (lost or late or twice)


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
                requests = serve(expected, rate, folder, given.device, collector.address, collector.outage)
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
