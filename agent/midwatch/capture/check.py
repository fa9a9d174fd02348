"""The self-check of a saved trace: are there kernels for the launches? A streaming count of bytes, no parsing.

The companion runs it on the file before anything else is said about the device.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from midwatch.model.trace import Caveat

_CHUNK = 1 << 20
_FEW = 20
"""Fewer launches than this prove nothing: their kernels may have run past the window's edge."""
_MOST = 0.8

_PATTERNS = {
    "kernels": (b'"cat": "kernel"', b'"cat":"kernel"'),
    "launches": (
        b'"name": "cudaLaunchKernel',
        b'"name":"cudaLaunchKernel',
        b'"name": "cuLaunchKernel',
        b'"name":"cuLaunchKernel',
    ),
    "graph_launches": (b'"name": "cudaGraphLaunch', b'"name":"cudaGraphLaunch'),
}
_OVERLAP = max(len(pattern) for patterns in _PATTERNS.values() for pattern in patterns) - 1


@dataclass(frozen=True, slots=True)
class TraceCount:
    """What was launched and what ran, by count."""

    kernels: int = 0
    launches: int = 0
    graph_launches: int = 0


def count_trace(path: str | Path) -> TraceCount:
    """Count kernels and launches in a Kineto trace, ``.json`` or ``.json.gz``. Raises `OSError`."""
    counts = dict.fromkeys(_PATTERNS, 0)
    with _opened(Path(path)) as file:
        tail = b""
        while chunk := file.read(_CHUNK):
            # What is counted lies in the new part or across the border, never wholly in the old tail.
            text = tail + chunk
            for name, patterns in _PATTERNS.items():
                counts[name] += sum(text.count(p) - tail.count(p) for p in patterns)
            tail = text[-_OVERLAP:]
    return TraceCount(**counts)


def check_trace(path: str | Path) -> tuple[Caveat, ...]:
    """Say what is missing from a saved trace. Raises `OSError`."""
    return judge(count_trace(path))


def judge(count: TraceCount) -> tuple[Caveat, ...]:
    """Caveats of a count. Launches without kernels mean a lost device lane, never an idle device."""
    launches = count.launches + count.graph_launches
    if not count.kernels and launches:
        text = f"{launches} launches but no kernel was recorded: the device lane is missing, the device was not idle"
        return (Caveat("kernels_missing", text, launches),)
    if count.launches >= _FEW and count.kernels < _MOST * count.launches:
        text = f"only {count.kernels} kernels for {count.launches} launches were recorded: device time is understated"
        return (Caveat("kernels_partly_missing", text, count.launches - count.kernels),)
    return ()


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]
