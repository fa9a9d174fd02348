"""Traces of any size: a real one again and again, each time later and with other correlations.

    python tests/benchmarks/analysis/grow.py SOURCE EVENTS TARGET

A process of its own, since a child's peak memory begins with that of the process that started it.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from isal import igzip

_NUMBERED = ("correlation", "External id", "Ev Idx")
_STEP = re.compile(r"^ProfilerStep#(\d+)$")
_PAUSE_US = 1000.0


def grown(source: Path, events: int, target: Path) -> Path:
    """Write a trace of about ``events`` events, made of ``source``, to ``target`` (.json.gz)."""
    read = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    document = json.loads(read)
    timed = sorted((e for e in document.pop("traceEvents") if e.get("ph") != "M"), key=lambda e: float(e["ts"]))
    document.setdefault("schemaVersion", 1)
    with igzip.open(target, "wb", compresslevel=1) as out:
        out.write(json.dumps(document).encode()[:-1] + b', "traceEvents": [\n')
        encoder, first = msgspec.json.Encoder(), True
        for batch in _batches(timed, events):
            text = b",\n".join(encoder.encode(event) for event in batch)
            out.write(text if first else b",\n" + text)
            first = False
        out.write(b"]}")
    return target


def _batches(timed: list[dict[str, Any]], events: int) -> Iterator[list[dict[str, Any]]]:
    span = max(float(e["ts"]) + float(e.get("dur") or 0) for e in timed) - float(timed[0]["ts"]) + _PAUSE_US
    most = 1 + max(
        int(value)
        for e in timed
        for value in (*(e.get("args", {}).get(k) for k in _NUMBERED if isinstance(e.get("args"), dict)), e.get("id"))
        if isinstance(value, int)
    )
    steps = sum(bool(_STEP.match(str(e.get("name")))) for e in timed)
    for copy in range(-(-events // len(timed))):
        left = events - copy * len(timed)
        yield [_moved(e, copy * span, copy * most, copy * steps) for e in timed[:left]]


def _moved(event: dict[str, Any], by_us: float, numbers: int, steps: int) -> dict[str, Any]:
    moved = {**event, "ts": float(event["ts"]) + by_us}
    args = event.get("args")
    if isinstance(args, dict):
        moved["args"] = {
            key: value + numbers if key in _NUMBERED and isinstance(value, int) and value > 0 else value
            for key, value in args.items()
        }
    if isinstance(event.get("id"), int):
        moved["id"] = event["id"] + numbers
    step = _STEP.match(str(event.get("name")))
    if step:
        moved["name"] = f"ProfilerStep#{int(step[1]) + steps}"
    return moved


if __name__ == "__main__":
    grown(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
