import gzip
import json
import os
import subprocess
import sys
import threading
import time

import pytest
import torch
from midwatch.companion.reader import read_window
from midwatch.model.capture import Capture
from midwatch.model.plain import from_plain, to_plain
from midwatch.model.requests import RequestRecord
from midwatch.model.resource import Resource
from midwatch.model.trace import TraceSummary
from midwatch.model.tracks import Tracks


@pytest.fixture
def window(tmp_path):
    """A real Kineto window over three requests, and the agent's tracks of it."""
    trace, tracks = tmp_path / "trace.json", tmp_path / "tracks.json"
    requests = []
    layer = torch.nn.Linear(64, 64)
    started_ns = time.time_ns()
    with torch.autograd.profiler.profile() as profiler:
        for number in range(3):
            start_ns = time.time_ns()
            layer(torch.ones(8, 64)).sum()
            duration_ns = time.time_ns() - start_ns
            native, ident = threading.get_native_id(), threading.get_ident()
            requests.append(RequestRecord(number, "rank", start_ns, duration_ns, native, ident))
    profiler.kineto_results.save(str(trace))
    capture = Capture("w1", "demand", "done", start_unix_ns=started_ns, end_unix_ns=time.time_ns())
    tracks.write_text(json.dumps(to_plain(Tracks(Resource("me", "reco"), capture, tuple(requests)))))
    return trace, tracks


def test_a_real_window_becomes_one_file_and_its_summary(window, tmp_path):
    trace, tracks = window
    out = tmp_path / "w1.json.gz"
    result = read_window(trace, tracks, out)
    summary = from_plain(TraceSummary, result["summary"])
    assert (summary.window.basis, len(summary.requests)) == ("ledger", 3)
    assert {request.route for request in summary.requests} == {"rank"}
    assert summary.events > 3
    assert result["caveats"] == []
    assert not trace.exists()
    assert not tracks.exists()
    document = json.loads(gzip.decompress(out.read_bytes()))
    assert document["midwatch"]["capture"]["capture_id"] == "w1"
    named = [event for event in document["traceEvents"] if event.get("name") == "aten::linear"]
    drawn = [event for event in document["traceEvents"] if event.get("cat") == "midwatch"]
    assert len(named) == len(drawn) == 3
    for operator, request in zip(named, drawn, strict=True):
        assert request["ts"] <= operator["ts"] <= request["ts"] + request["dur"], "one clock for both"


def run(arguments, stdin):
    command = [sys.executable, "-m", "midwatch.companion.reader", *map(str, arguments)]
    return subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=30, check=False)


def test_as_a_process_it_prints_what_it_found_or_why_not(window, tmp_path):
    trace, tracks = window
    watched, held = os.pipe()
    try:
        done = run([trace, tracks, tmp_path / "out.json.gz"], watched)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["summary"]["window"]["requests"] == 3
        again = json.loads(run([trace, tracks, tmp_path / "out.json.gz"], watched).stdout)
        assert again["error"].startswith("the trace cannot be read: [Errno 2]")
    finally:
        os.close(watched)
        os.close(held)


def test_it_ends_with_the_companion(tmp_path):
    fifo = tmp_path / "trace.json"
    os.mkfifo(fifo)  # opening it waits for a writer that never comes
    done = run([fifo, "", tmp_path / "out.json.gz"], subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (1, "")
