"""Reading in bounded memory: what does not fit is cut off in time, in all lanes, and said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc

import pytest
from isal import igzip
from midwatch.trace import TraceError, summarise
from midwatch.trace.ceiling import LEAST_BYTES
from midwatch.trace.columns import Columns
from midwatch.trace.load import load
from midwatch.trace.shorten import LONGEST
from midwatch.trace.source import CHUNK_BYTES
from midwatch.trace.split import Reader
from midwatch.wire import to_message

MIB = 1 << 20
RUNS = """
import json, sys
from midwatch.trace import TraceError, summarise
try:
    summary = summarise(sys.argv[1], memory_bytes=int(sys.argv[2]))
    said = {"events": summary.events, "caveats": {c.code: c.text for c in summary.window.caveats}}
except TraceError as error:
    said = {"error": str(error)}
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({**said, "peak": int(peak.split()[1]) << 10}))
"""


def in_a_process(path, memory_bytes):
    """Summarise in a process of its own, and tell the most memory that it took."""
    done = subprocess.run(
        [sys.executable, "-c", RUNS, str(path), str(memory_bytes)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout)


def packed(path, rows):
    """Write a trace of ready-made rows, some hundred thousand of them, without ever holding it."""
    with igzip.open(path, "wb", compresslevel=1) as out:
        out.write(b'{"schemaVersion": 1, "traceEvents": [\n')
        for number, row in enumerate(rows):
            out.write(b",\n" + row if number else row)
        out.write(b"]}")
    return path


def row(cat, name, start, length, tid=2, **args):
    return (
        b'{"ph": "X", "cat": "%b", "name": "%b", "pid": 1, "tid": %d, "ts": %d, "dur": %d, "args": {%b}}'
        % (cat, name, tid, start, length, b", ".join(b'"%b": %d' % (k.encode(), v) for k, v in args.items()))
    )  # fmt: skip


def launches(count):
    """A request of ten launches after the other; Kineto writes all calls first and all kernels last."""
    for request in range(count // 10):
        yield row(b"user_annotation", b"request", 1000 * request, 900)
    for n in range(count):
        yield row(b"cuda_runtime", b"cudaLaunchKernel", 1000 * (n // 10) + 80 * (n % 10), 5, correlation=n + 1)
    for n in range(count):
        at = 1000 * (n // 10) + 80 * (n % 10) + 20
        yield row(b"kernel", b"k%d" % (n % 10), at, 30, correlation=n + 1, stream=7, device=0)


def waits(count):
    for n in range(count):
        yield row(b"cuda_runtime", b"cudaLaunchKernel", 300 * n, 3, correlation=2 * n + 1)
        yield row(b"kernel", b"k", 300 * n + 5, 3, correlation=2 * n + 1, stream=7, device=0)
        yield row(b"cuda_runtime", b"cudaDeviceSynchronize", 300 * n + 10, 150, correlation=2 * n + 2)


def names(count):
    return (row(b"cpu_op", b"the operator number %d of many" % n, 5 * n, 4) for n in range(count))


def threads(count):
    return (row(b"cpu_op", b"op", 5 * n, 4, tid=n) for n in range(count))


KINDS = {"launches": launches, "waits": waits, "names": names, "threads": threads}


@pytest.mark.process
@pytest.mark.parametrize("kind", KINDS)
def test_reading_keeps_to_its_ceiling(kind, tmp_path):
    found = in_a_process(packed(tmp_path / "large.json.gz", KINDS[kind](60_000 if kind == "waits" else 150_000)), 0)
    assert found["peak"] < LEAST_BYTES
    assert {"cut_short", "bounded"} & set(found["caveats"])


@pytest.mark.process
def test_a_bomb_that_is_no_trace_takes_no_memory(tmp_path):
    path = tmp_path / "bomb.json.gz"
    with igzip.open(path, "wb", compresslevel=1) as out:
        out.write(b'{"traceEvents": [{"ph": "X", "name": "')
        for _ in range(40):
            out.write(b"a" * (16 * MIB))
    assert path.stat().st_size < 8 * MIB
    found = in_a_process(path, LEAST_BYTES)
    assert "holds no timed events" in found["error"]
    assert found["peak"] < LEAST_BYTES


@pytest.fixture
def cut(tmp_path, monkeypatch):
    """A trace of 3,000 requests, whole and read with room for half of it."""
    path = packed(tmp_path / "t.json.gz", launches(30_000))
    whole = summarise(path)
    monkeypatch.setattr("midwatch.trace.columns.LEAST_BYTES", 0)
    monkeypatch.setattr("midwatch.trace.columns.BASE_BYTES", 0)
    return whole, summarise(path, memory_bytes=30 * MIB)


def test_a_trace_that_does_not_fit_is_cut_at_one_time_in_all_lanes(cut):
    _, part = cut
    caveat = next(c for c in part.window.caveats if c.code == "cut_short")
    kept_ms = part.window.duration_ms
    assert caveat.text == (
        "The trace (63,000 events) needs more than 30 MiB of memory: "
        f"the facts cover its first {kept_ms:,.0f} of 3,000 ms."
    )
    assert 500 < kept_ms < 2000
    assert abs(part.window.requests - kept_ms) <= 1, "a request starts each millisecond"
    assert part.device.kernels == pytest.approx(10 * part.window.requests, abs=10)
    assert part.device.launches_without_kernel == 0
    assert "device_records_lost" not in [c.code for c in part.window.caveats]


def test_what_is_said_of_a_request_is_the_same_where_the_trace_was_cut(cut):
    whole, part = cut
    assert part.request_p50_ms == whole.request_p50_ms
    assert part.launch.per_request == whole.launch.per_request == 10
    assert part.launch.recoverable_ms == pytest.approx(whole.launch.recoverable_ms, rel=0.01)
    assert [k.name for k in part.kernels] == [k.name for k in whole.kernels]


def test_what_a_request_did_after_the_cut_is_not_missed(tmp_path, monkeypatch):
    monkeypatch.setattr("midwatch.trace.columns.LEAST_BYTES", 0)
    monkeypatch.setattr("midwatch.trace.columns.BASE_BYTES", 0)
    step = (row(b"user_annotation", b"request", 300_000 * n, 299_000) for n in range(10))
    path = packed(tmp_path / "t.json.gz", [*step, *list(launches(30_000))[3000:]])
    part = summarise(path, memory_bytes=30 * MIB)
    assert part.window.basis == "annotation"
    assert 1 <= part.window.requests < 9
    assert all(r.launches == 2990 for r in part.requests), "the one that was cut through is left out"


def test_names_that_only_the_rest_used_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr("midwatch.trace.columns.LEAST_BYTES", 0)
    monkeypatch.setattr("midwatch.trace.columns.BASE_BYTES", 0)
    trace = load(packed(tmp_path / "t.json.gz", names(40_000)), memory_bytes=4 * MIB)
    assert 1000 < len(trace.names) < 20_000
    assert [trace.names[n] for n in trace.ops.name[:3]] == [f"the operator number {n} of many" for n in range(3)]


def test_events_without_a_time_are_not_collected_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("midwatch.trace.columns.LEAST_BYTES", 0)
    monkeypatch.setattr("midwatch.trace.columns.BASE_BYTES", 0)
    lost = (b'{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 2, "dur": 1}' for _ in range(40_000))
    with pytest.raises(TraceError, match="no timed events"):
        load(packed(tmp_path / "t.json.gz", lost), memory_bytes=2 * MIB)


def test_categories_and_threads_without_end_are_counted_together(monkeypatch):
    monkeypatch.setattr("midwatch.trace.columns._MOST_THREADS", 100)
    rows = [row(b"kind%d" % n, b"x", n, 1) for n in range(2000)]
    rows += [b'{"ph": "M", "name": "thread_name", "pid": 1, "tid": %d, "args": {"name": "t"}}' % n for n in range(2000)]
    columns = Columns()
    for batch in Reader([b"[" + b",".join(rows) + b"]"], "t.json"):
        columns.add(batch)
    assert len(columns.other) == 257
    assert sum(columns.other.values()) == 2000
    assert len(columns.thread_names) == 100


def test_a_trace_is_read_in_pieces(tmp_path):
    """The text of a trace is ten times as large as what reading it takes, without the rows themselves."""
    path = packed(tmp_path / "t.json.gz", (row(b"unknown", b"x" * 900, n, 1) for n in range(60_000)))
    load(packed(tmp_path / "small.json.gz", [row(b"cpu_op", b"op", 0, 1)]))
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match="no timed events"):
            load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * CHUNK_BYTES < 60_000 * 900 / 5


def test_a_summary_of_endless_names_can_travel(tmp_path):
    long = b"n" * 3000
    rows = []
    for n in range(400):
        name = b"%d" % (n % 80) + long
        rows += [
            row(b"user_annotation", b"request " + long, 1000 * n, 900),
            row(b"cpu_op", b"aten::" + name, 1000 * n, 50, **{"External id": n + 1}),
            row(b"cuda_runtime", b"cudaLaunchKernel", 1000 * n + 10, 5, correlation=n + 1, **{"External id": n + 1}),
            row(b"kernel", b"void " + name + b"<float>", 1000 * n + 20, 500, correlation=n + 1, stream=7, device=0),
            row(b"cuda_runtime", b"cudaStreamSynchronize", 1000 * n + 30, 500, correlation=5000 + n),
            row(b"python_function", b"/srv/%b.py(%d): %b" % (name, n, name), 1000 * n, 890),
        ]
    summary = summarise(packed(tmp_path / "t.json.gz", rows))
    assert max(len(k.name) for k in summary.kernels) in LONGEST
    assert to_message(summary).ByteSize() < 64 << 10


@pytest.mark.process
def test_analyze_cuts_a_trace_at_the_memory_it_is_given(tmp_path):
    path = packed(tmp_path / "t.json.gz", launches(120_000))
    command = [sys.executable, "-m", "midwatch_client", "analyze", str(path), "--json", "--max-memory", "128"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    (caveat,) = [c for c in json.loads(done.stdout)["window"]["caveats"] if c["code"] == "cut_short"]
    assert "needs more than 128 MiB of memory" in caveat["text"]
