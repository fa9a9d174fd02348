"""Hand-made Kineto traces, and a small machine that runs a program and records it as Kineto would."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from midwatch.model.capture import Capture
from midwatch.model.plain import to_plain
from midwatch.model.requests import RequestRecord, UnitRecord
from midwatch.model.resource import Resource
from midwatch.model.samples import GcPause, LockWait
from midwatch.model.site import Frame
from midwatch.model.spike import Baseline
from midwatch.model.tracks import SampleRow, Tracks

if not (Path(__file__).parents[4] / "shared" / "field" / "traces").is_dir():
    collect_ignore = ["test_published_large.py"]  # traces of others that are too large to be kept here

BASE_NS = 1_790_000_000_000_000_000
DATA = Path(__file__).parents[2] / "data"
MAIN = 100


@dataclass
class Lanes:
    """Collects events; all times are microseconds from the start of the window."""

    events: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 1

    def host(self, cat: str, name: str, start: float, end: float, tid: int = MAIN, **args: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": end - start, "args": args}
        )

    def request(self, start: float, end: float, name: str = "request", tid: int = MAIN) -> None:
        self.host("user_annotation", name, start, end, tid)

    def op(self, name: str, start: float, end: float, tid: int = MAIN, **args: Any) -> None:
        self.host("cpu_op", name, start, end, tid, **args)

    def python(self, name: str, start: float, end: float, tid: int = MAIN) -> None:
        self.host("python_function", name, start, end, tid)

    def call(self, api: str, start: float, end: float, tid: int = MAIN) -> int:
        self.correlation += 1
        self.host("cuda_runtime", api, start, end, tid, correlation=self.correlation)
        return self.correlation

    def work(self, cat: str, name: str, start: float, end: float, link: int, stream: int = 7, **args: Any) -> None:
        self.events.append(
            {
                "ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": end - start,
                "args": {"correlation": link, "stream": stream, "device": 0, **args},
            }
        )  # fmt: skip

    def launch(
        self, at: float, call: float, start: float, end: float, kernel: str = "k", stream: int = 7, tid: int = MAIN
    ) -> None:
        link = self.call("cudaLaunchKernel", at, at + call, tid)
        self.work("kernel", kernel, start, end, link, stream, grid=[1, 1, 1], block=[32, 1, 1])

    def text(self, tracks: Tracks | None = None) -> str:
        head: dict[str, Any] = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS}
        if tracks is not None:
            head = {"midwatch": to_plain(tracks), **head}
        return json.dumps({**head, "traceEvents": self.events, "traceName": "made.json"})

    def write(self, folder: Path, tracks: Tracks | None = None) -> Path:
        path = folder / "made.json.gz"
        path.write_bytes(gzip.compress(self.text(tracks).encode()))
        return path


@dataclass
class Agent:
    """Makes the agent's tracks; all times are microseconds from the start of the window."""

    window: tuple[float, float]
    thread: int = MAIN
    baseline: Baseline = Baseline()
    base_ns: int = BASE_NS
    route: str = ""
    requests: list[RequestRecord] = field(default_factory=list)
    units: list[UnitRecord] = field(default_factory=list)
    gc: list[GcPause] = field(default_factory=list)
    locks: list[LockWait] = field(default_factory=list)
    _frames: dict[Frame, int] = field(default_factory=dict)
    _stacks: dict[tuple[int, ...], int] = field(default_factory=dict)
    _samples: list[SampleRow] = field(default_factory=list)

    def request(self, start: float, end: float, thread: int = MAIN, route: str = "GET /", **more: Any) -> None:
        number = len(self.requests)
        self.requests.append(RequestRecord(number, route, self.unix(start), nanos(end - start), thread, **more))

    def unit(self, start: float, end: float, thread: int, requests: int = 1, **more: Any) -> None:
        number = len(self.units)
        record = UnitRecord(number, "Model", self.unix(start), nanos(end - start), thread, requests=requests, **more)
        self.units.append(record)

    def sample(self, at: float, weight: float, frames: Iterable[Frame], thread: int = MAIN, late: float = 0.0) -> None:
        stack = tuple(self._frames.setdefault(frame, len(self._frames)) for frame in frames)
        number = self._stacks.setdefault(stack, len(self._stacks))
        self._samples.append(SampleRow(self.unix(at), thread, number, nanos(weight), nanos(late)))

    def pause(self, start: float, end: float, frames: tuple[Frame, ...] = (), explicit: bool | None = None) -> None:
        asked = bool(frames) if explicit is None else explicit
        self.gc.append(GcPause(self.unix(start), nanos(end - start), 2, 7, MAIN, 0, asked, frames))

    def lock(self, start: float, end: float, waiter: Frame, holder: Frame, thread: int = MAIN) -> None:
        wait = LockWait(self.unix(start), nanos(end - start), thread, (waiter,), "Lock RANKS", 5, "reporter", (holder,))
        self.locks.append(wait)

    def tracks(self) -> Tracks:
        start, end = self.window
        capture = Capture(
            "c",
            "demand",
            "done",
            route=self.route,
            start_unix_ns=self.unix(start),
            end_unix_ns=self.unix(end),
            baseline=self.baseline,
        )
        return Tracks(
            resource=Resource("a", "service", torch="2.13.0"),
            capture=capture,
            requests=tuple(self.requests),
            units=tuple(self.units),
            frames=tuple(self._frames),
            stacks=tuple(self._stacks),
            samples=tuple(self._samples),
            gc=tuple(self.gc),
            locks=tuple(self.locks),
        )

    def unix(self, micros: float) -> int:
        return self.base_ns + nanos(micros)


def nanos(micros: float) -> int:
    return round(micros * 1000)


@dataclass
class Machine:
    """A host and one stream: runs programs, and records what a profiler would see.

    A launch call takes 5 us; its kernel starts 6 us after the call began, or 1 us after the kernel in front of it.
    A wait ends 2 us after the work has.
    """

    lanes: Lanes = field(default_factory=Lanes)
    clock: float = 0.0
    free: float = -1000.0

    def think(self, micros: float) -> None:
        self.clock += micros

    def kernel(self, micros: float, name: str = "k") -> None:
        start = max(self.clock + 6, self.free + 1)
        self.lanes.launch(self.clock, 5, start, start + micros, name)
        self.clock, self.free = self.clock + 5, start + micros

    def read(self, size: int = 4, *, wait: bool = True) -> None:
        """Copy to the host and wait for it, as ``.item()`` does; without the wait the copy alone stays."""
        start = max(self.clock + 6, self.free + 1)
        self.free = start + 2
        link = self.lanes.call("cudaMemcpyAsync", self.clock, self.clock + 5)
        self.lanes.work("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", start, self.free, link, bytes=size)
        if wait:
            done = max(self.clock + 5, self.free + 2)
            self.lanes.call("cudaStreamSynchronize", self.clock + 5, done)
            self.clock = done

    def synchronize(self, *, wait: bool = True) -> None:
        if wait:
            done = max(self.clock, self.free + 2)
            self.lanes.call("cudaDeviceSynchronize", self.clock, done)
            self.clock = done

    def run(self, program: Callable[[Machine], None]) -> float:
        """Run one request and return how long it took."""
        start = self.clock
        program(self)
        self.lanes.request(start, self.clock)
        took = self.clock - start
        self.clock += 20
        return took


@pytest.fixture
def lanes() -> Lanes:
    return Lanes()


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture(scope="session")
def make_agent() -> type[Agent]:
    return Agent


@pytest.fixture
def make_machine() -> type[Machine]:
    return Machine


@pytest.fixture(scope="session")
def data() -> Path:
    return DATA
