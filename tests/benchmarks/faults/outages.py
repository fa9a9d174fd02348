"""A collector that is killed and started again, and what became of all that was sent to it meanwhile."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from faults import runner
from midwatch_client.api import Client

_LOOK_S = 0.01
_DELIVERED_S = 30.0
"""Until what waited on disk has arrived: a companion asks for a collector that was away every ten seconds or so."""


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
        self._seen: set[str] = set()
        self.start()
        self.ready()

    def start(self) -> None:
        """Start it."""
        arguments = ["-m", "midwatch_client", "collector", "--db", str(self._database), "--grpc", self.address]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log)

    def ready(self) -> None:
        """Wait until it answers."""
        with Client(self.address) as client:
            runner.poll("the collector", lambda: runner.answers(client), runner.START_S, self._process, self._log)

    def watch(self, over: Callable[[], bool]) -> None:
        """See which batches come and go until ``over``."""
        while not over():
            self._seen |= self.spooled()
            time.sleep(_LOOK_S)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.acknowledged |= (self._seen - self.spooled()) | set(self.stored("batch_id", "batches"))
        self._seen.clear()

    def restart(self) -> None:
        """Start it again after a kill."""
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
