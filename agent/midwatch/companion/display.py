"""Draws the agent's tracks as trace events on a process of their own: Perfetto shows them beside Kineto's lanes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Plain = dict[str, Any]

PID = 0x4D494457
"""Not a process id that a system gives: Linux stops at 2^22."""
CATEGORY = "midwatch"
"""Readers of traces leave a category alone that they do not know."""


def display_events(tracks: Plain, base_ns: int) -> Iterator[Plain]:
    """Yield the events of ``tracks``, a `Tracks` in plain form. ``base_ns`` is the trace's ``baseTimeNanoseconds``."""
    yield {"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "args": {"name": "Midwatch"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": PID, "tid": 0, "args": {"sort_index": -1}}
    tid = 0
    for title, spans in _groups(tracks):
        for number, lane in enumerate(_lanes(spans)):
            tid += 1
            name = title if number == 0 else f"{title} ({number + 1})"
            yield {"ph": "M", "name": "thread_name", "pid": PID, "tid": tid, "args": {"name": name}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": PID, "tid": tid, "args": {"sort_index": tid}}
            for start_ns, duration_ns, label, args in lane:
                yield {
                    "ph": "X", "cat": CATEGORY, "name": label, "pid": PID, "tid": tid,
                    "ts": (start_ns - base_ns) / 1e3, "dur": duration_ns / 1e3, "args": args,
                }  # fmt: skip


Span = tuple[int, int, str, Plain]
"""Start in Unix ns, duration in ns, label, args."""


def _groups(tracks: Plain) -> Iterator[tuple[str, list[Span]]]:
    """Yield title and spans of each group of lanes, in the order in which they are drawn."""
    threads = {row["native_id"]: row["name"] for row in tracks.get("threads", ())}
    yield "requests", [_request(row) for row in tracks.get("requests", ())]
    yield from _by_thread("units", threads, tracks.get("units", ()), _unit)
    yield from _by_thread("samples", threads, tracks.get("samples", ()), _Sampled(tracks))
    yield "garbage collection", [_pause(row) for row in tracks.get("gc", ())]
    yield from _by_thread("lock waits", threads, tracks.get("locks", ()), _lock)
    yield "compilation", [_compilation(row) for row in tracks.get("compiles", ())]


def _by_thread(
    what: str, threads: dict[int, str], rows: Iterable[Plain], span: Any
) -> Iterator[tuple[str, list[Span]]]:
    found: dict[int, list[Span]] = {}
    for row in rows:
        found.setdefault(row["thread_id"], []).append(span(row))
    for thread_id, spans in found.items():
        yield f"{what} of {threads.get(thread_id) or 'thread'} {thread_id}", spans


def _lanes(spans: list[Span]) -> list[list[Span]]:
    """Lay spans on as few lanes as needed, so that none overlaps another on its lane."""
    lanes: list[list[Span]] = []
    ends: list[int] = []
    for span in sorted(spans, key=lambda span: span[:2]):
        free = next((lane for lane, end in enumerate(ends) if end <= span[0]), len(lanes))
        if free == len(lanes):
            lanes.append([])
            ends.append(0)
        lanes[free].append(span)
        ends[free] = span[0] + span[1]
    return lanes


def _request(row: Plain) -> Span:
    args = {"request_id": row["request_id"], "status": row.get("status", ""), "in_flight": row.get("in_flight", 0)}
    return row["start_unix_ns"], row["duration_ns"], row["route"], args


def _unit(row: Plain) -> Span:
    inputs = list(row.get("workload", {}).get("inputs", ()))
    return row["start_unix_ns"], row["duration_ns"], row["name"], {"requests": row.get("requests", 0), "inputs": inputs}


def _pause(row: Plain) -> Span:
    args = {"collected": row["collected"], "explicit": row["explicit"], "thread": row["thread_id"]}
    return row["start_unix_ns"], row["duration_ns"], f"generation {row['generation']}", args


def _lock(row: Plain) -> Span:
    args = {"waiter": [_place(frame) for frame in row["waiter"]], "holder": [_place(f) for f in row.get("holder", ())]}
    # A wait is noted when it is seen, so it lies before its time stamp.
    return row["unix_ns"] - row["duration_ns"], row["duration_ns"], row["lock"], args


def _compilation(row: Plain) -> Span:
    return row["start_unix_ns"], row["duration_ns"], row["trigger"], {"compile_id": row.get("compile_id", "")}


class _Sampled:
    """A sample stands for the time since the one before it."""

    def __init__(self, tracks: Plain) -> None:
        self._frames = [_place(frame) for frame in tracks.get("frames", ())]
        self._stacks = tracks.get("stacks", ())

    def __call__(self, row: Plain) -> Span:
        places = [self._frames[index] for index in self._stacks[row["stack"]]]
        weight_ns = row["weight_ns"]
        return row["unix_ns"] - weight_ns, weight_ns, places[0] if places else "no frame", {"stack": places}


def _place(frame: Plain) -> str:
    return f"{frame['function']} ({frame['file']}:{frame['line']})"
