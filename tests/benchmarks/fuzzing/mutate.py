"""Damaged traces: real ones, shrunk, with events changed as damaged files and odd profilers would change them."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

EACH = 6
"""Events of a category that a shrunk trace keeps."""
VALUES: tuple[Any, ...] = (
    0, -1, 1, 0.5, -0.0, 1e300, -1e18, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, None, "", "x", "7", "NaN",
    "1e9", True, False, [], [[]], {}, {"a": 1}, [1, [2, "x"]], "\u0000", "\ud83d\ude00", "aten::mm", "ProfilerStep#1",
    "Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)", "ncclDevKernel_AllReduce", "kernel",
    "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaGraphLaunch",
    "cudaStreamBeginCapture_v10000", "cudaFree", "cudaMalloc", "hipMemcpyWithStream", "request", "gpu_memcpy",
    "cuda_sync", "cpu_op", "user_annotation", "python_function", "cuda_runtime", "overhead", "Trace", "X", "M", "i",
    "s", "<built-in method item of Tensor object at 0x7f>", "app.py(12): run", "a(1): b(2): c", "thread_name",
)  # fmt: skip
FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id")
ARGS = (
    "correlation", "External id", "external id", "stream", "device", "bytes", "Input Dims", "Input dims", "Input type",
    "grid", "block", "name",
)  # fmt: skip
BYTES = (
    b"",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"]",
    b"[",
    b",",
    b":",
    b"\xff",
    b"\x00",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"\\ud800",
)


def events_of(text: bytes) -> tuple[dict[str, Any], list[Any]]:
    """The head and the events of a trace; empty where it is none, or is damaged."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, list):
            return {}, found
        if isinstance(found, dict) and isinstance(found.get("traceEvents"), list):
            return {k: v for k, v in found.items() if k != "traceEvents"}, found["traceEvents"]
    return {}, []


def shrunk(text: bytes) -> bytes:
    """A trace of a few kilobytes with the first events of each kind, and the calls of the kernels among them."""
    head, events = events_of(text)
    seen: Counter[Any] = Counter()
    kept, wanted = [], set()
    for event in events:
        key = event.get("ph"), event.get("cat")
        seen[key] += 1
        args = event.get("args")
        correlation = args.get("correlation") if isinstance(args, dict) else None
        if seen[key] <= EACH or (correlation is not None and correlation in wanted and seen[key] <= 8 * EACH):
            kept.append(event)
            wanted.add(correlation)
    if not kept:
        return text[:4096]
    short = {k: _thinned(v) if k == "midwatch" else v for k, v in head.items() if k == "midwatch" or len(str(v)) < 1500}
    return json.dumps({**short, "traceEvents": kept}).encode()


def _thinned(value: Any) -> Any:
    """The agent's tracks with a few rows of each kind."""
    if isinstance(value, dict):
        return {k: _thinned(v) for k, v in value.items()}
    return [_thinned(one) for one in value[:EACH]] if isinstance(value, list) else value


def corpus(folders: Iterable[Path]) -> list[bytes]:
    """Shrunk traces of all files in the folders."""
    files = [p for folder in folders for p in sorted(folder.rglob("*.json*")) if not p.name.endswith(".meta.json")]
    found = {}
    for path in files:
        raw = path.read_bytes()
        if len(raw) > 400_000:
            continue
        with contextlib.suppress(OSError, EOFError):
            found[shrunk(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)] = path
    return list(found)


def mutated(text: bytes, rng: random.Random) -> bytes:
    """Change some events of a trace, or where it cannot be read any more its bytes."""
    with contextlib.suppress(OSError, EOFError, zlib.error):
        text = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
    head, events = events_of(text)
    if not events or rng.random() < 0.15:
        return _broken(text, rng)
    for _ in range(rng.randint(1, 6)):
        _change(events, rng)
    if "midwatch" in head and rng.random() < 0.5:
        _change_inside(head["midwatch"], rng)
    if rng.random() < 0.1:
        head[rng.choice(("baseTimeNanoseconds", "deviceProperties", "cuda_runtime_version", "midwatch"))] = rng.choice(
            VALUES
        )
    with contextlib.suppress(ValueError, RecursionError):
        return json.dumps({**head, "traceEvents": events}, indent=rng.choice((None, None, 1))).encode()
    return text


def _change(events: list[Any], rng: random.Random) -> None:
    event = rng.choice(events)
    if not isinstance(event, dict):
        return
    args = event.get("args")
    kind = rng.randrange(7)
    if kind == 0 and isinstance(args, dict):
        args[rng.choice(ARGS)] = rng.choice(VALUES)
    elif kind == 1:
        event.pop(rng.choice(FIELDS), None)
    elif kind == 2:
        events.append({**event, "ts": rng.choice((event.get("ts"), *VALUES))})
    elif kind == 3:
        other = rng.choice(events)
        field = rng.choice(FIELDS)
        if isinstance(other, dict) and field in other:
            event[field] = other[field]
    elif kind == 4:
        events.remove(event)
        events.insert(rng.randint(0, len(events)), event)
    elif kind == 5:
        event["dur" if rng.random() < 0.5 else "ts"] = rng.choice((rng.uniform(-1e6, 1e9), rng.randint(0, 10**6)))
    else:
        event[rng.choice(FIELDS)] = rng.choice(VALUES)


def _change_inside(value: Any, rng: random.Random) -> None:
    """Change one thing somewhere in the agent's tracks."""
    while isinstance(value, (dict, list)) and value:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        inner = value[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.2:
            value[key] = rng.choice((*VALUES, inner + 10**6 if isinstance(inner, int) else inner))
            return
        value = inner


def _broken(text: bytes, rng: random.Random) -> bytes:
    broken = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(broken))
        broken[at : at + rng.choice((0, 1, 1, 3, 40))] = rng.choice(BYTES)
    return bytes(broken[: rng.randint(0, len(broken))] if rng.random() < 0.02 else broken)


def packed(text: bytes, rng: random.Random) -> bytes:
    """The file: as it is, or packed, whole, damaged, cut, or in two members."""
    kind = rng.randrange(8)
    if kind < 4:
        return text
    members = [text] if kind < 7 else [text[: len(text) // 2], text[len(text) // 2 :]]
    whole = b"".join(gzip.compress(member, 1, mtime=0) for member in members)
    return _broken(whole, rng) if kind == 5 else whole
