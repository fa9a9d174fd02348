"""Prints the latencies of a service whose collector is killed and restarted, beside the same load without an agent."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from faults import latency, runner
from faults.expected import ALL, SPIKE, WINDOWS_ON, Expected
from midwatch_client.api import Client

DOWN_S = 10.0


def serve(
    expected: Expected, folder: Path, device: str, seconds: float, address: str, meanwhile: Callable[[], None]
) -> latency.Row:
    """Run one service to its end, with the agent where there is an address, and return its latencies."""
    latencies, log = folder / "latencies", folder / "service.log"
    latencies.unlink(missing_ok=True)
    arguments = [str(expected.path), "--seconds", str(seconds), "--device", device, "--latencies", str(latencies)]
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
    requests = latency.read(latencies)
    whole = [(min(begin for begin, _ in requests), max(end for _, end in requests))]
    return latency.row("", requests, whole)


class Collector:
    """A collector that can be killed and started again on the same database."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.database = folder / "outage.db"
        self._log = folder / "collector.log"
        self.acknowledged: set[str] = set()
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        arguments = ["-m", "midwatch_client", "collector", "--db", str(self.database), "--grpc", self.address]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log)
        with Client(self.address) as client:
            runner.poll("the collector", lambda: runner.answers(client), runner.START_S, self._process, self._log)

    def outage(self) -> None:
        """Let it serve for a while, kill it, and start it again after `DOWN_S`."""
        time.sleep(5.0)
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.acknowledged = set(self.stored())
        time.sleep(DOWN_S)
        self.start()

    def stored(self) -> list[str]:
        """The spikes that lie in the database."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as database:
            return [row[0] for row in database.execute("SELECT spike_id FROM spikes")]

    def end(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(runner.STOP_S)


def main() -> int:
    """Run the service three times; 0 when nothing acknowledged is missing and nothing is stored twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cuda", "cpu"))
    parser.add_argument("--seconds", type=float, default=25.0, help="of each run; the outage takes 15 of them")
    parser.add_argument(
        "--spikes", action="store_true", help="use the service with planted spikes, so that more is uploaded"
    )
    given = parser.parse_args()
    expected = SPIKE if given.spikes else next(one for one in ALL if one.name == WINDOWS_ON)
    with tempfile.TemporaryDirectory(prefix="midwatch-outage-") as name:
        folder = Path(name)
        rows = {"no agent": serve(expected, folder, given.device, given.seconds, "", lambda: None)}
        collector = Collector(folder)
        try:
            rows["collector killed"] = serve(
                expected, folder, given.device, given.seconds, collector.address, collector.outage
            )
            time.sleep(2.0)  # what the companion had left is on its way
        finally:
            collector.end()
        rows["no agent, again"] = serve(expected, folder, given.device, given.seconds, "", lambda: None)
        stored = collector.stored()
    print(f"{expected.name} on {given.device}, {given.seconds:g} s each, {os.cpu_count()} cores; milliseconds")
    for title, row in rows.items():
        figures = f"p50 {row.p50_ms:.3f}  p99 {row.p99_ms:.3f}  worst {row.worst_ms:.1f}"
        print(f"{title:<18} {row.requests:>8} requests  {figures}")
    before = collector.acknowledged
    missing, twice = before - set(stored), len(stored) - len(set(stored))
    print(f"spikes: {len(before)} when it was killed, {len(stored)} at the end, {len(missing)} missing, {twice} twice")
    return 1 if missing or twice else 0


if __name__ == "__main__":
    sys.exit(main())
