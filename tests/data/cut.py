"""Cuts a Kineto trace to a few requests, and to what is read of it, so that it can be kept here as a fixture.

    python tests/data/cut.py trace.json.gz fixture.json.gz --from-ms 30 --until-ms 80
    python tests/data/cut.py trace.json.gz fixture.json.gz --from-request 12 --requests 4

The second form counts the requests of the agent's own tracks that lie wholly inside the window, from 0.
Flow events, instants, the profiler's own spans and the agent's drawing are left out, and of arguments all but those
that the reader reads. Device work is kept where its launch is, and where it ran meanwhile. With ``--outermost`` only
operators that lie in no other one are kept, with ``--frames-ms 1`` only Python frames of at least a millisecond.
Of the agent's tracks everything of that time is kept, but for what tells one machine from another.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

READ = {
    "correlation", "stream", "device", "bytes", "External id", "external id", "Input Dims", "Input dims", "Input type",
    "grid", "block", "Process Group Name", "Collective name", "name",
}  # fmt: skip
DROPPED = {"ac2g", "fwdbwd", "cpu_instant_event", "gpu_user_annotation", "midwatch", "Trace"}
HOST = {"cuda_runtime", "cuda_driver", "Runtime"}
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
OPS = {"cpu_op", "Operator"}
MARKS = {"user_annotation"}

Event = dict[str, Any]


def cut(trace: Event, start_us: float, end_us: float, *, outermost: bool, frames_us: float) -> Event:
    """Return ``trace`` from ``start_us`` to ``end_us`` of its own clock."""
    inside = [e for e in trace["traceEvents"] if _wanted(e, start_us, end_us, frames_us)]
    links = {e["args"].get("correlation") for e in inside if e.get("cat") in HOST and "args" in e}
    inside = [
        e
        for e in inside
        if e.get("cat") not in DEVICE or start_us <= e["ts"] < end_us or e["args"].get("correlation") in links
    ]
    if outermost:
        inside = _outermost(inside)
    lanes = {(e["pid"], e["tid"]) for e in inside if e["ph"] == "X"}
    kept = [_slim(e) for e in inside if e["ph"] == "X" or (e.get("pid"), e.get("tid")) in lanes]
    return {**{k: v for k, v in trace.items() if k != "traceName"}, "traceEvents": kept}


def _wanted(event: Event, start_us: float, end_us: float, frames_us: float) -> bool:
    if event.get("ph") == "M":
        return event.get("name") == "thread_name"
    if event.get("ph") != "X" or event.get("cat") in DROPPED:
        return False
    start, length = float(event["ts"]), float(event.get("dur", 0))
    if event["cat"] in MARKS:
        return start >= start_us and start + length <= end_us
    if event["cat"] == "python_function" and length < frames_us:
        return False
    return event["cat"] in DEVICE or (start < end_us and (start >= start_us or start + length > end_us))


def _outermost(events: list[Event]) -> list[Event]:
    reach: dict[object, float] = {}
    inner = set()
    for event in sorted((e for e in events if e.get("cat") in OPS), key=lambda e: (e["ts"], -e["dur"])):
        if event["ts"] < reach.get(event["tid"], -1):
            inner.add(id(event))
        else:
            reach[event["tid"]] = event["ts"] + event["dur"]
    return [e for e in events if id(e) not in inner]


def _slim(event: Event) -> Event:
    args = {key: value for key, value in event.get("args", {}).items() if key in READ}
    return {**{k: v for k, v in event.items() if k not in ("args", "id", "bp")}, **({"args": args} if args else {})}


def cut_tracks(tracks: Event, start_ns: int, end_ns: int) -> None:
    """Narrow the agent's tracks to the same time, and take out whose they are, in place."""
    tracks["resource"]["host"] = ""
    for device in tracks["resource"]["devices"]:
        device["uuid"] = ""
    tracks["capture"].update(start_unix_ns=start_ns, end_unix_ns=end_ns)
    for name in ("requests", "units", "gc", "compiles"):
        tracks[name] = [
            one
            for one in tracks[name]
            if one["start_unix_ns"] < end_ns and one["start_unix_ns"] + one["duration_ns"] > start_ns
        ]
    for name in ("samples", "locks"):
        tracks[name] = [one for one in tracks[name] if start_ns <= one["unix_ns"] < end_ns]


def request_span(tracks: Event, first: int, count: int) -> tuple[int, int]:
    """Return begin and end, in Unix ns, of ``count`` requests one after another that lie inside the window."""
    window = tracks["capture"]
    spans = sorted((one["start_unix_ns"], one["start_unix_ns"] + one["duration_ns"]) for one in tracks["requests"])
    whole = [(s, e) for s, e in spans if window["start_unix_ns"] <= s and e <= window["end_unix_ns"]]
    chosen = whole[first : first + count]
    if len(chosen) < count:
        raise SystemExit(f"{len(whole)} requests lie inside the window: {count} from {first} on are too many")
    return chosen[0][0], max(end for _, end in chosen)


def main() -> None:
    """Cut one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("fixture", type=Path)
    parser.add_argument("--from-ms", type=float, default=0.0, help="from the start of the window")
    parser.add_argument("--until-ms", type=float, default=float("inf"))
    parser.add_argument("--from-request", type=int, default=0, help="the first one of --requests")
    parser.add_argument("--requests", type=int, default=0, help="how many, instead of a time")
    parser.add_argument("--outermost", action="store_true")
    parser.add_argument("--frames-ms", type=float, default=0.0)
    given = parser.parse_args()
    text = given.trace.read_bytes()
    trace = json.loads(gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text)
    tracks, base_ns = trace.get("midwatch"), int(trace.get("baseTimeNanoseconds") or 0)
    timed = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") not in DROPPED]
    first_us = min(float(e["ts"]) for e in timed)
    last_us = max(float(e["ts"]) + float(e.get("dur", 0)) for e in timed)
    if tracks:
        first_us = (tracks["capture"]["start_unix_ns"] - base_ns) / 1e3
        last_us = (tracks["capture"]["end_unix_ns"] - base_ns) / 1e3
    start_us = first_us + given.from_ms * 1e3
    end_us = min(last_us, first_us + given.until_ms * 1e3)
    if tracks and given.requests:
        begin_ns, end_ns = request_span(tracks, given.from_request, given.requests)
        start_us, end_us = (begin_ns - base_ns) / 1e3, (end_ns - base_ns) / 1e3
    if tracks:
        cut_tracks(tracks, base_ns + round(start_us * 1e3), base_ns + round(end_us * 1e3))
    small = cut(trace, start_us, end_us, outermost=given.outermost, frames_us=given.frames_ms * 1e3)
    with gzip.GzipFile(given.fixture, "wb", 9, mtime=0) as out:
        out.write(json.dumps(small, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
