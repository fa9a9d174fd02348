"""The planted faults: what they are, and the lines that carry them, read from the comments in the service's code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from midwatch.model.finding import Kind

SERVICE_FOLDER = Path(__file__).resolve().parent / "ranker"
_MARK = re.compile(r"#\s*FAULT\((\w+)\)")


@dataclass(frozen=True, slots=True)
class Fault:
    """One planted fault; ``file`` ends in what an incident calls the file, and ``line`` starts at 1."""

    name: str
    kind: Kind
    what: str
    file: str
    line: int
    needs_gpu: bool = False


_KNOWN = {
    "trim_gc": (Kind.GC_PAUSE, "the catalogue collects garbage by hand, in the event loop", False),
    "audit_write": (Kind.HOST_GAP, "the audit log writes to a slow pipe, in the event loop", False),
    "rules": (Kind.HOST_GAP, "business rules in plain Python between the model's stages, in the batcher thread", False),
    "meter_lock": (Kind.LOCK_WAIT, "a counter waits for the lock that the reporter thread holds", False),
    "metric_item": (Kind.HOT_SYNC, "a metric reads a scalar from the device, in the batcher thread", True),
}


def planted(folder: Path = SERVICE_FOLDER) -> tuple[Fault, ...]:
    """Every fault marked in ``folder``, by file and line. Raises `KeyError` for a mark without a meaning."""
    found = []
    for path in sorted(folder.glob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if mark := _MARK.search(line):
                kind, what, needs_gpu = _KNOWN[mark[1]]
                found.append(Fault(mark[1], kind, what, f"{folder.name}/{path.name}", number, needs_gpu))
    return tuple(found)
