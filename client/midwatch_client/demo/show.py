"""The demo from beginning to end."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from midwatch_client.api import Client
from midwatch_client.demo import check
from midwatch_client.demo.faults import Fault, planted
from midwatch_client.demo.stage import SERVICE, Stage, free_port, health, listens
from midwatch_client.demo.watch import Watch, line
from midwatch_client.errors import CollectorError

COLLECTOR_PORT = 7171
_LOOK_S = 0.5
_CHECK_EVERY_S = 3.0
_GPU_PROFILE_AT_S = 15.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What the demo was asked for. ``seconds`` counts from the start of the load."""

    seconds: float
    load: bool = True
    hold: bool = False
    keep_db: Path | None = None
    port: int = COLLECTOR_PORT


@dataclass(frozen=True, slots=True)
class _Running:
    address: str
    service_port: int
    device: str


def play(plan: Plan, console: Console) -> bool:
    """Run the demo and return whether it found what was planted; everything that it started has ended by then."""
    with _ended_by_term(), tempfile.TemporaryDirectory(prefix="midwatch-demo-") as folder:
        stage = Stage(Path(folder))
        try:
            running = _raise_curtain(plan, Path(folder), stage, console)
            verdicts = _watch_incidents(plan, running, stage, console)
            _how_to_look_further(plan, running, console)
            if plan.hold:
                _hold(stage, console)
        finally:
            console.print("Stopping the service and the collector …", style="dim")
            stage.stop()
    _recorded_on_a_gpu(console)
    return check.passed(verdicts)


def _raise_curtain(plan: Plan, folder: Path, stage: Stage, console: Console) -> _Running:
    collector, service = free_port(plan.port), free_port()
    address = f"127.0.0.1:{collector}"
    database = plan.keep_db.resolve() if plan.keep_db else folder / "midwatch.db"
    console.print("Starting a collector on SQLite, and a ranking service with the agent …", style="dim")
    stage.start("collector", "midwatch_client", ["collector", "--db", str(database), "--grpc", address])
    settings = {
        "MIDWATCH_SERVICE": SERVICE,
        "MIDWATCH_SERVICE_VERSION": "demo",
        "MIDWATCH_COLLECTOR": address,
        "MIDWATCH_STATE_DIR": str(folder / "state"),
    }
    app = ["midwatch_client.demo.ranker.serve:app", "--port", str(service), "--log-level", "warning"]
    stage.start("service", "uvicorn", app, settings)
    stage.wait_for("collector", lambda: listens(collector))
    device = stage.wait_for("service", lambda: health(service))["device"]
    console.print(f"Collector at {address}, service at http://127.0.0.1:{service} on {device}.")
    return _Running(address, service, device)


def _watch_incidents(plan: Plan, running: _Running, stage: Stage, console: Console) -> list[check.Verdict]:
    """Drive the load, print incidents as they come in, and stop early once every planted fault was found."""
    faults = [fault for fault in planted() if running.device != "cpu" or not fault.needs_gpu] if plan.load else []
    if plan.load:
        stage.start("load", "midwatch_client.demo.load", ["--port", str(running.service_port)])
        console.print(f"The load is on. {len(faults)} faults are planted; incidents follow as they come in:")
        console.print()
    watch = Watch(running.address, SERVICE)
    verdicts = check.judge(faults, [])
    try:
        with Client(running.address) as client:
            began = time.monotonic()
            checked = profiled = began
            while (now := time.monotonic()) < began + plan.seconds:
                stage.check()
                for incident in watch.fresh():
                    console.print(f"  {now - began:5.1f} s  {line(incident)}", soft_wrap=True)
                if running.device != "cpu" and profiled == began and now > began + _GPU_PROFILE_AT_S:
                    profiled = now
                    _profile(client, console)
                if faults and now > checked + _CHECK_EVERY_S:
                    checked = now
                    verdicts = _judge(client, faults)
                    if all(verdict.found for verdict in verdicts):
                        break
                time.sleep(_LOOK_S)
            verdicts = _judge(client, faults)
    finally:
        watch.close()
    if faults:
        _paragraph(console, "Planted and found:")
        console.print()
        console.print(check.table(verdicts))
        found = sum(verdict.found for verdict in verdicts)
        _paragraph(
            console, f"{found} of {len(verdicts)} planted faults were found with the right kind and the exact line."
        )
    return verdicts


def _judge(client: Client, faults: list[Fault]) -> list[check.Verdict]:
    seen = [
        sighting
        for incident in client.incidents(SERVICE)
        for sighting in check.sightings(incident, client.incident(incident.incident_id).occurrences)
    ]
    return check.judge(faults, seen)


def _profile(client: Client, console: Console) -> None:
    """A fault that is always there never spikes: a window finds it."""
    try:
        client.profile(SERVICE, requests=20)
    except CollectorError as error:
        console.print(f"  A profile on demand did not work: {error}")


def _how_to_look_further(plan: Plan, running: _Running, console: Console) -> None:
    _paragraph(
        console,
        "To look further:" if plan.hold or plan.keep_db else "To look further, run `midwatch demo --hold` and then:",
    )
    console.print()
    where = (
        ""
        if running.address == f"127.0.0.1:{COLLECTOR_PORT}" and not plan.keep_db
        else f" --collector {running.address}"
    )
    if plan.keep_db and not plan.hold:
        console.print(f"  midwatch collector --db {plan.keep_db} --grpc {running.address}", soft_wrap=True)
    for command in (
        "incidents",
        "show ID",
        *(
            [f"profile {SERVICE} --requests 20 -o trace.json.gz", "analyze trace.json.gz"]
            if plan.hold or not plan.keep_db
            else []
        ),
    ):
        console.print(f"  midwatch {command}{'' if command.startswith('analyze') else where}", soft_wrap=True)


def _hold(stage: Stage, console: Console) -> None:
    _paragraph(console, "The demo keeps running. Ctrl-C ends it.")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            stage.check()
            time.sleep(_LOOK_S)


def _recorded_on_a_gpu(console: Console) -> None:
    """The report of a trace recorded on an H200, so that a hot sync can be seen on any machine."""
    from midwatch.trace import summarise
    from midwatch_server.diagnosis import Evidence, Report, diagnose

    from midwatch_client.render.terminal import print_report

    _paragraph(
        console,
        "And a trace of the story that Midwatch comes from, recorded on an H200 (`midwatch analyze` on a file):",
    )
    console.print()
    with resources.as_file(resources.files("midwatch_client.demo") / "data" / "item_metric.json.gz") as path:
        summary = summarise(path)
    print_report(Report(diagnose(Evidence(summary=summary)), summary=summary, file=summary.file), console)


def _paragraph(console: Console, text: str) -> None:
    console.print()
    console.print(text)


@contextlib.contextmanager
def _ended_by_term() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the demo as Ctrl-C does, so that its processes end in order."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
