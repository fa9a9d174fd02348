"""Prints what the diagnosis of a faulty service predicts to gain, beside what its repaired twin really gains.

For each pair: one window of the faulty service gives the prediction; the median latencies of both services, without
windows, give the gain. The faulty service runs twice, before and after the repaired one: the two medians are the A/A
row. A prediction holds within 25 % of the gain or 0.1 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import device_bench
from faults import latency, runner
from faults.pairs import PAIRS, Pair
from midwatch.model.incident import CaptureDetail
from midwatch_client.api import Client

SETTLE_S = 2.5
"""After the start: clocks rise, and the agent's own look after warm-up is over."""
RUN_S = 3.0
NEAR_SHARE, NEAR_MS = 0.25, 0.1


@contextmanager
def serving(pair: Pair, client: Client, folder: Path, device: str, *, repaired: bool, windows: bool) -> Iterator[Path]:
    """One of the two services; the block gets the file of its latencies."""
    extra = ("--repaired",) if repaired else ()
    environment = {} if windows else {"MIDWATCH_ENGINE": "off"}
    with runner.service(pair.expected, client, folder, device, 60.0, extra, environment) as latencies:
        time.sleep(SETTLE_S)
        yield latencies


def median_ms(pair: Pair, client: Client, folder: Path, device: str, *, repaired: bool) -> float:
    """The median latency of a run without windows, milliseconds."""
    with serving(pair, client, folder, device, repaired=repaired, windows=False) as latencies:
        time.sleep(RUN_S)
    requests = latency.read(latencies)
    since = min(begin for begin, _ in requests) + int(SETTLE_S * 1e9)
    return statistics.median((end - begin) / 1e6 for begin, end in requests if begin > since)


def window(pair: Pair, client: Client, folder: Path, device: str) -> CaptureDetail | str:
    """One window of the faulty service, or why there is none; one that comes too soon is asked for again."""
    with serving(pair, client, folder, device, repaired=False, windows=True):
        return device_bench.profile(client, pair.expected.name)


def predicted(pair: Pair, detail: CaptureDetail) -> dict[str, Any]:
    """What the window says: the finding in question and its gain, milliseconds a request."""
    findings = detail.diagnosis.findings
    first = findings[0].kind.value if findings else detail.diagnosis.verdict.value
    if pair.suspect:
        summary = detail.capture.summary
        waits = summary.waits if summary is not None else ()
        gains = [wait.recoverable_ms for wait in waits if wait.site is not None and wait.site.function == pair.suspect]
        claimed = any(f.kind.value == "hot_sync" and f.site and f.site.function == pair.suspect for f in findings)
        return {"first": first, "ms": round(sum(gains), 3), "right": first == pair.expected.kind and not claimed}
    for finding in findings:
        if finding.kind.value == pair.expected.kind:
            return {"first": first, "ms": round(finding.recoverable_ms, 3), "right": first == pair.expected.kind}
    return {"first": first, "ms": None, "right": False}


def measure(pair: Pair, client: Client, folder: Path, device: str, keep: Path | None) -> dict[str, Any]:
    """One row of the table."""
    row: dict[str, Any] = {"service": pair.expected.name, "mends": pair.mends, "kind": pair.expected.kind}
    detail = window(pair, client, folder, device)
    if isinstance(detail, str):
        return {**row, "first": "no window", "why": detail, "ms": None, "right": False, "holds": False}
    if keep is not None:
        client.trace(detail.capture.capture_id, keep / f"{pair.expected.name}.json.gz")
    row |= predicted(pair, detail)
    before = median_ms(pair, client, folder, device, repaired=False)
    repaired = median_ms(pair, client, folder, device, repaired=True)
    after = median_ms(pair, client, folder, device, repaired=False)
    gained = (before + after) / 2 - repaired
    near = max(NEAR_MS, NEAR_SHARE * abs(gained))
    row |= {"faulty_ms": before, "again_ms": after, "repaired_ms": repaired, "gained_ms": gained}
    return {**row, "holds": row["ms"] is not None and abs(row["ms"] - gained) <= near}


def print_row(row: dict[str, Any]) -> None:
    """One line of the table."""
    said = "-" if row["ms"] is None else f"{row['ms']:.2f}"
    figures = " ".join(f"{row.get(key, 0.0):>8.2f}" for key in ("faulty_ms", "again_ms", "repaired_ms", "gained_ms"))
    print(
        f"{row['service']:<14} {row['mends']:<56} {row['kind']:<15} {row['first']:<17} {figures} {said:>9}"
        f"  {'holds' if row['holds'] else 'MISSED'}{'' if row['right'] else '  WRONG KIND'}"
        + (f"  ({row['why']})" if row.get("why") else ""),
        flush=True,
    )


def main() -> int:
    """Run all pairs; 0 when at least eight of ten predictions hold (always 0 on a CPU)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--keep", type=Path, help="a folder for the raw trace of each faulty service")
    parser.add_argument("--only", default="", help="names of services, separated by commas")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    rows = []
    with tempfile.TemporaryDirectory(prefix="midwatch-pairs-") as name, runner.collector(Path(name), port) as client:
        print(
            f"{'service':<14} {'what is mended':<56} {'expected':<15} {'first finding':<17} {'faulty':>8} {'again':>8}"
            f" {'repaired':>8} {'gained':>8} {'predicted':>9}"
        )
        for pair in PAIRS:
            if given.only and pair.expected.name not in given.only.split(","):
                continue
            try:
                rows.append(measure(pair, client, Path(name), given.device, given.keep))
            except RuntimeError as error:  # one that does not start must not cost the rest of a device's time
                rows.append(
                    {"service": pair.expected.name, "mends": pair.mends, "kind": pair.expected.kind}
                    | {"first": "-", "ms": None, "right": False, "holds": False, "why": str(error)}
                )
            print_row(rows[-1])
    held = sum(row["holds"] for row in rows)
    print(f"{held} of {len(rows)} predictions within {NEAR_SHARE:.0%} or {NEAR_MS} ms")
    if out := os.environ.get("OUT"):
        Path(out, "pairs.json").write_text(json.dumps({"device": given.device, "pairs": rows}, indent=1))
    return 0 if given.device == "cpu" or held >= 0.8 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
