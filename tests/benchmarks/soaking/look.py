"""Looks at trace files in a process of its own: reading, unpacking and counting hold the GIL of the service otherwise.

As a module `look(what, **arguments)`; as a program it reads ``[what, arguments]`` from standard input.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path


def look(what, **arguments):
    """Run one of the functions below in a child; returns what it gives."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps([what, arguments]),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"looking at a trace failed: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def thread_table(threads=None):
    """The numbers by which a trace may know a thread."""
    table = []
    for thread in threads or threading.enumerate():
        low = ctypes.c_int32(thread.ident & 0xFFFFFFFF).value
        table.append({"name": thread.name, "native_id": thread.native_id, "ident": thread.ident, "as_int32": low})
    return table


def count(paths):
    """Kernels and launches of each file."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "agent"))
    from midwatch.capture.check import count_trace

    counted = {path: count_trace(path) for path in paths}
    return {path: (c.kernels, c.launches) for path, c in counted.items()}


def pack(path, to):
    """Keep a trace."""
    with gzip.open(to, "wb") as file:
        file.write(Path(path).read_bytes())
    return {}


def describe(path, threads):
    """Categories, and by which number the runtime events name threads."""
    trace = _load(path)
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    tids = Counter(e["tid"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver", "cpu_op"))
    known = {number: row["name"] for row in threads for number in _numbers(row)}
    names = {cat: Counter(e["name"] for e in events if e.get("cat") == cat) for cat in ("cuda_runtime", "cuda_sync")}
    return {
        "categories": Counter(e.get("cat", "?") for e in events),
        "runtime_names": dict(names["cuda_runtime"].most_common(12)),
        "sync_names": names["cuda_sync"],
        "tids": {str(tid): [n, known.get(tid, "unknown")] for tid, n in tids.most_common(8)},
        "threads": threads,
        "top_level": [key for key in trace if key != "traceEvents"],
    }


def samples(path, samples, thread, planted):
    """Which waits above 1 ms of a thread were hit by a sample, and did it show the planted line?"""
    trace = _load(path)
    base = trace.get("baseTimeNanoseconds", 0)
    report, lines = Counter(waits_over_1ms=0, hit_by_a_sample=0, on_the_planted_line=0), Counter()
    for event in trace["traceEvents"]:
        if event.get("cat") != "cuda_runtime" or event.get("dur", 0) < 1000 or event["tid"] not in _numbers(thread):
            continue
        start = base + event["ts"] * 1000
        inside = [s for s in samples if start <= s[0] <= start + event["dur"] * 1000 and s[1] == thread["name"]]
        report["waits_over_1ms"] += 1
        report["hit_by_a_sample"] += bool(inside)
        report["on_the_planted_line"] += any(s[2] == planted for s in inside)
        report[f"in {event['name']}"] += 1
        lines.update(f"{s[1]}:{s[2]}" for s in inside)
    return {"report": report, "lines": lines}


def _numbers(row):
    return {row["native_id"], row["as_int32"], abs(row["as_int32"])}


def _load(path):
    return json.loads(Path(path).read_text(errors="replace"), strict=False)


if __name__ == "__main__":
    what, arguments = json.load(sys.stdin)
    json.dump(globals()[what](**arguments), sys.stdout)
