"""A table of all traces in a folder: what was read, how long it took, the first finding or the verdict, the caveats.

    python tests/benchmarks/field_traces.py FOLDER

Ends with 1 if a file raises anything but a `TraceError`.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path

from midwatch.model.plain import to_plain
from midwatch.model.trace import TraceSummary
from midwatch.trace import TraceError, summarise
from midwatch_server.diagnosis import Evidence, diagnose


def row(path: Path, summary: TraceSummary, seconds: float) -> str:
    """One line of the table."""
    window, device = summary.window, summary.device
    size = len(json.dumps(to_plain(summary))) / 1024
    busy = f"{device.busy_ms:10.3f} {device.kernels:6d}" if device.present else f"{'-':>10} {'-':>6}"
    return (
        f"{path.name[:48]:48} {summary.events:8d} {seconds:6.2f} {size:5.0f} {window.basis:10} {window.requests:4d} "
        f"{busy}  {said(summary)[:48]:48} {' '.join(c.code for c in window.caveats)}"
    )


def said(summary: TraceSummary) -> str:
    """The first finding with its gain, or the verdict."""
    diagnosis = diagnose(Evidence(summary=summary, workload=summary.workload))
    if not diagnosis.findings:
        return diagnosis.verdict.value
    first = diagnosis.findings[0]
    of = f" of {first.per_request_ms / first.share_of_request:.2f}" if first.share_of_request else ""
    where = f" {first.site.function}" if first.site else ""
    return f"{first.kind.value}{where}: {first.recoverable_ms:.2f}{of} ms"


def main(folder: Path) -> int:
    """Print the table; return the exit code."""
    columns = f"{'events':>8} {'s':>6} {'KiB':>5} {'basis':10} {'req':>4} {'busy ms':>10} {'kernel':>6}"
    print(f"{'file':48} {columns}  {'first finding':48} caveats")
    fell = 0
    for path in sorted(p for p in folder.iterdir() if p.name.endswith((".json", ".json.gz"))):
        start = time.perf_counter()
        try:
            print(row(path, summarise(path), time.perf_counter() - start))
        except TraceError as error:
            print(f"{path.name[:48]:48} refused: {error}")
        except Exception:
            fell += 1
            print(f"{path.name[:48]:48} FELL OVER")
            traceback.print_exc()
    return 1 if fell else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
