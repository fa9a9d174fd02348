"""The demo's parts by themselves: the marks, the judgement, the load, the processes."""

import asyncio
import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
from midwatch.model.finding import Finding, Kind
from midwatch.model.incident import Incident, Occurrence
from midwatch.model.site import Site
from midwatch_client.demo import check, faults, load
from midwatch_client.demo.stage import Stage, free_port, listens
from midwatch_client.errors import Failure

FAULT = faults.Fault("trim_gc", Kind.GC_PAUSE, "what", "ranker/catalog.py", 33)


def finding(
    kind: Kind, line: int, *, exact: bool = True, file: str = "midwatch_client/demo/ranker/catalog.py"
) -> Finding:
    return Finding(kind, "title", Site(file, line, "trim", exact=exact, how="sample"), 100.0, 0.9, 100.0, 1.0, 1, 0.9)


def incident(latest: Finding) -> Incident:
    return Incident("i1", "v1:x", "ranker", "GET /items/{number}", latest.kind, "title", 3, 1, 2, latest=latest)


def judged(*findings: Finding) -> check.Verdict:
    occurrences = [Occurrence(f"o{n}", "i1", n, "a1", one) for n, one in enumerate(findings)]
    return check.judge([FAULT], check.sightings(incident(findings[0]), occurrences))[0]


def test_every_mark_in_the_service_has_a_meaning_and_every_meaning_a_mark():
    planted = faults.planted()
    assert {fault.name for fault in planted} == set(faults._KNOWN)
    assert len({(fault.file, fault.line) for fault in planted}) == len(planted)
    assert "batcher" in next(fault.what for fault in planted if fault.name == "rules")


def test_a_mark_is_found_at_its_line(tmp_path: Path):
    (tmp_path / "a.py").write_text("x = 1\ny = 2  # FAULT(rules)\n")
    (only,) = faults.planted(tmp_path)
    assert (only.file, only.line, only.kind) == (f"{tmp_path.name}/a.py", 2, Kind.HOST_GAP)


def test_found_means_kind_file_line_and_witnessed():
    assert judged(finding(Kind.GC_PAUSE, 33)).found
    assert judged(finding(Kind.GC_PAUSE, 30), finding(Kind.GC_PAUSE, 33)).found
    assert not judged(finding(Kind.GC_PAUSE, 30)).found
    assert not judged(finding(Kind.GC_PAUSE, 33, exact=False)).found
    assert judged(finding(Kind.HOST_GAP, 33)).seen is None
    assert judged(finding(Kind.GC_PAUSE, 33, file="other/catalogue.py")).seen is None


@pytest.mark.parametrize(("found", "of", "passes"), [(3, 4, True), (2, 4, False), (0, 0, True), (5, 5, True)])
def test_three_found_faults_are_enough(found: int, of: int, passes: bool):
    right, wrong = judged(finding(Kind.GC_PAUSE, 33)), judged(finding(Kind.GC_PAUSE, 1))
    assert check.passed([right] * found + [wrong] * (of - found)) is passes


def test_the_table_is_honest_about_what_was_not_found():
    from rich.console import Console

    console = Console(width=160)
    with console.capture() as shown:
        console.print(check.table([judged(finding(Kind.GC_PAUSE, 30)), check.Verdict(FAULT, None)]))
    rows = shown.get().splitlines()
    assert "another line" in rows[1]
    assert "not found" in rows[2]


@pytest.fixture
async def front():
    """A server that answers each request once ``answer`` is set. It keeps the paths that were asked for."""
    made = Front()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
    await asyncio.gather(*made.connections)


class Front:
    def __init__(self) -> None:
        self.port = 0
        self.answer = asyncio.Event()
        self.paths: list[str] = []
        self.connections: list[asyncio.Task] = []
        self._asked = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(asyncio.current_task())
        # A client that ends before it was answered may do so with a reset.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.paths.append(head.split(b" ")[1].decode())
                async with self._asked:
                    self._asked.notify_all()
                await self.answer.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def asked(self, times: int) -> None:
        async with self._asked:
            await asyncio.wait_for(self._asked.wait_for(lambda: len(self.paths) >= times), 20)


async def test_the_load_is_an_open_loop(front: Front):
    driving = asyncio.create_task(load.drive("127.0.0.1", front.port))
    # Not one of them is answered, and the next ones leave all the same.
    await front.asked(40)
    assert {path.split("/")[1] for path in front.paths} == {"rank", "items", "clicks", "views"}
    front.answer.set()
    await front.asked(80)
    driving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await driving


async def test_connections_of_the_load_are_kept(front: Front):
    client = load.Client("127.0.0.1", front.port)
    front.answer.set()
    assert [await client.fetch("GET", f"/{number}") for number in range(5)] == [200] * 5
    assert len(front.connections) == 1
    front.answer.clear()
    both = [asyncio.create_task(client.fetch("GET", "/both")) for _ in range(2)]
    await front.asked(7)
    front.answer.set()
    assert await asyncio.gather(*both) == [200] * 2
    assert await client.fetch("GET", "/") == 200
    assert len(front.connections) == 2
    await client.close()


def test_one_in_fifty_rank_requests_asks_for_diversity():
    paths = [load.STREAMS[0].path(number) for number in range(500)]
    assert sum("diverse" in path for path in paths) == 10


def complaint(stage: Stage) -> str:
    try:
        stage.check()
    except Failure as failure:
        return str(failure)
    return ""


@pytest.mark.process
def test_a_stage_starts_and_stops_processes_and_says_why_one_ended(tmp_path: Path):
    stage = Stage(tmp_path)
    port = free_port()
    stage.start("web", "http.server", [str(port), "--bind", "127.0.0.1"])
    try:
        stage.wait_for("web", lambda: listens(port), timeout_s=20)
        stage.start("broken", "http.server", ["nonsense"])
        until = time.monotonic() + 20
        said = ""
        while not said and time.monotonic() < until:
            said = complaint(stage)
        assert said.startswith("the demo's broken ended with code 2: ")
        assert "nonsense" in said
    finally:
        stage.stop()
    assert not listens(port)


@pytest.mark.process
def test_what_a_stage_started_ends_with_it_even_when_it_is_killed(tmp_path: Path):
    script = (
        "import pathlib, sys, time\n"
        "from midwatch_client.demo.stage import Stage, free_port, listens\n"
        "stage, port = Stage(pathlib.Path(sys.argv[1])), free_port()\n"
        "stage.start('web', 'http.server', [str(port), '--bind', '127.0.0.1'])\n"
        "stage.wait_for('web', lambda: listens(port))\n"
        "print(port, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as demo:
        port = int(demo.stdout.readline())
        assert listens(port)
        demo.kill()
    until = time.monotonic() + 20
    while listens(port) and time.monotonic() < until:
        time.sleep(0.02)
    assert not listens(port)


def test_a_taken_port_is_left_to_its_owner():
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        assert free_port(number) != number
