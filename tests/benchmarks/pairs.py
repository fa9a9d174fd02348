"""Prints what the diagnosis of a faulty service predicts to gain, beside what its repaired twin really gains.

Both run in one process. Three times a window of the faulty one is taken, and then the two take turns of a quarter of a
second. The prediction is the median over the windows; those left out that say themselves that something else slowed
their requests. The gain is the median over the turns of what the p50 of a faulty turn lies above that of the nearest
repaired one. The A/A column is how far the p50 of every other faulty turn lie apart. At the end of a line stand the
predictions of all windows, and what was gained in the turns after each. A prediction holds within 25 % of the gain or
0.1 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import device_bench
from faults import latency, runner
from faults.pairs import PAIRS, Pair
from midwatch.model.incident import CaptureDetail
from midwatch_client.api import Client

SETTLE_S = 2.0
"""After the start: clocks rise, and the agent's own look after warm-up is over."""
CALM_S = 0.6
"""After a change of what is served, and after a window."""
ROUNDS = 3
TURNS_S = 1.6
TURN_GAP_NS = 100_000_000
"""A pause so long between two requests of one kind: the other kind had its turn."""
NEAR_SHARE, NEAR_MS = 0.25, 0.1
ENOUGH = 8

Turn = tuple[int, float]
"""Begin in Unix ns and p50 in ms."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one process of a pair gave; latencies are medians in milliseconds."""

    windows: list[CaptureDetail | str]
    """Of the faulty one, each what was seen or why there is none."""
    twin: CaptureDetail | str
    faulty_ms: float
    repaired_ms: float
    gained_ms: float
    each_gained_ms: list[float]
    """In the turns after each window: to be set beside its prediction where the machine changes its speed."""
    apart_ms: float
    """Between every other turn of the faulty one and the rest."""


def run(pair: Pair, client: Client, folder: Path, device: str) -> Measured:
    """Take windows of the faulty one and let both serve by turns, three times; at last take a window of its twin."""
    wanted = folder / f"{pair.expected.name}.twin"
    wanted.write_text("faulty", encoding="ascii")
    windows: list[CaptureDetail | str] = []
    stretches: list[latency.Span] = []
    with runner.service(pair.expected, client, folder, device, 90.0, ("--twin", str(wanted))) as latencies:
        time.sleep(SETTLE_S)
        for _ in range(ROUNDS):
            windows.append(device_bench.profile(client, pair.expected.name))
            time.sleep(CALM_S)
            begun_ns = time.time_ns()
            wanted.write_text("both", encoding="ascii")
            time.sleep(TURNS_S)
            stretches.append((begun_ns, time.time_ns()))
            wanted.write_text("faulty", encoding="ascii")
            time.sleep(CALM_S)
        wanted.write_text("repaired", encoding="ascii")
        time.sleep(CALM_S)
        twin = device_bench.profile(client, pair.expected.name)
    served = [latency.read(path) for path in (latencies, latencies.with_name(latencies.name + ".repaired"))]
    rounds = [
        [turns_of([r for r in requests if begin < r[0] < end]) for requests in served] for begin, end in stretches
    ]
    faulty, repaired = ([turn for one in rounds for turn in one[which]] for which in (0, 1))
    if min(len(faulty), len(repaired)) < 2:
        log = (folder / f"{pair.expected.name}.log").read_text(errors="replace")
        said = ", ".join(detail if isinstance(detail, str) else detail.capture.state for detail in [*windows, twin])
        raise RuntimeError(f"turns: {len(faulty)} faulty, {len(repaired)} repaired; windows: {said}\n{log[-1500:]}")
    gains = [gains_of(*one) for one in rounds if one[0] and one[1]]
    p50s, others = [p50_ms for _, p50_ms in faulty], [p50_ms for _, p50_ms in repaired]
    apart = abs(statistics.median(p50s[::2]) - statistics.median(p50s[1::2]))
    return Measured(
        windows,
        twin,
        statistics.median(p50s),
        statistics.median(others),
        statistics.median([gain for one in gains for gain in one]),
        [statistics.median(one) for one in gains],
        apart,
    )


def gains_of(faulty: list[Turn], repaired: list[Turn]) -> list[float]:
    """What the p50 of each faulty turn lies above that of the nearest repaired one, in milliseconds."""
    return [p50_ms - min(repaired, key=lambda turn: abs(turn[0] - begin))[1] for begin, p50_ms in faulty]


def turns_of(requests: list[latency.Span]) -> list[Turn]:
    """Divide the requests of one kind into its turns: a pause lies between two of them."""
    turns: list[list[latency.Span]] = []
    for request in requests:
        if not turns or request[0] - turns[-1][-1][1] > TURN_GAP_NS:
            turns.append([])
        turns[-1].append(request)
    return [(turn[0][0], statistics.median([(end - begin) / 1e6 for begin, end in turn])) for turn in turns]


def disturbed(detail: CaptureDetail) -> bool:
    """Whether the window says itself that its requests were slower than the profiler explains."""
    summary = detail.capture.summary
    return summary is not None and any(caveat.code == "slow_window" for caveat in summary.window.caveats)


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


def middle(all_said: list[dict[str, Any]]) -> dict[str, Any]:
    """The window with the median prediction; one that predicts nothing counts as the lowest."""
    ranked = sorted(all_said, key=lambda said: -1.0 if said["ms"] is None else said["ms"])
    return ranked[len(ranked) // 2]


def measure(pair: Pair, client: Client, folder: Path, device: str, keep: Path | None) -> dict[str, Any]:
    """One row of the table."""
    row: dict[str, Any] = {"service": pair.expected.name, "mends": pair.mends, "kind": pair.expected.kind}
    measured = run(pair, client, folder, device)
    for name, detail in zip([*map(str, range(ROUNDS)), "repaired"], [*measured.windows, measured.twin], strict=True):
        if keep is not None and not isinstance(detail, str):
            client.trace(detail.capture.capture_id, keep / f"{pair.expected.name}.{name}.json.gz")
    taken = [detail for detail in measured.windows if not isinstance(detail, str)]
    all_said = [predicted(pair, detail) for detail in taken]
    calm_said = [said for said, detail in zip(all_said, taken, strict=True) if not disturbed(detail)]
    if not all_said:
        why = str(measured.windows[0])
        return {**row, "first": "no window", "why": why, "ms": None, "right": False, "holds": False}
    row |= middle(calm_said or all_said) | {"each_ms": [said["ms"] for said in all_said], "calm": len(calm_said)}
    gained = measured.gained_ms
    near = max(NEAR_MS, NEAR_SHARE * abs(gained))
    row |= {"faulty_ms": measured.faulty_ms, "repaired_ms": measured.repaired_ms, "apart_ms": measured.apart_ms}
    row["each_gained_ms"] = [round(gain_ms, 3) for gain_ms in measured.each_gained_ms]
    return {**row, "gained_ms": gained, "holds": row["ms"] is not None and abs(row["ms"] - gained) <= near}


def print_row(row: dict[str, Any]) -> None:
    """One line of the table."""
    said = "-" if row["ms"] is None else f"{row['ms']:.2f}"
    figures = " ".join(f"{row.get(key, 0.0):>8.2f}" for key in ("faulty_ms", "apart_ms", "repaired_ms", "gained_ms"))
    print(
        f"{row['service']:<14} {row['mends']:<56} {row['kind']:<15} {row['first']:<17} {figures} {said:>9}"
        f"  {'holds' if row['holds'] else 'MISSED'}{'' if row['right'] else '  WRONG KIND'}"
        f"  {row.get('calm', 0)} calm of {row.get('each_ms', [])}, after each {row.get('each_gained_ms', [])}"
        + (f"  ({row['why']})" if row.get("why") else ""),
        flush=True,
    )


def main() -> int:
    """Run all pairs; 0 when at least eight predictions hold (always 0 on a CPU)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--keep", type=Path, help="a folder for the raw traces of all windows")
    parser.add_argument("--only", default="", help="names of services, separated by commas")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory(prefix="midwatch-pairs-") as name, runner.collector(Path(name)) as client:
        print(
            f"{'service':<14} {'what is mended':<56} {'expected':<15} {'first finding':<17} {'faulty':>8} {'A/A':>8}"
            f" {'repaired':>8} {'gained':>8} {'predicted':>9}"
        )
        for pair in PAIRS:
            if given.only and pair.expected.name not in given.only.split(","):
                continue
            try:
                rows.append(measure(pair, client, Path(name), given.device, given.keep))
            except (
                RuntimeError,
                statistics.StatisticsError,
            ) as error:  # one that does not start must not cost the rest of a device's time
                rows.append(
                    {"service": pair.expected.name, "mends": pair.mends, "kind": pair.expected.kind}
                    | {"first": "-", "ms": None, "right": False, "holds": False, "why": str(error)}
                )
            print_row(rows[-1])
    held = sum(row["holds"] for row in rows)
    print(f"{held} of {len(rows)} predictions within {NEAR_SHARE:.0%} or {NEAR_MS} ms")
    if out := os.environ.get("OUT"):
        Path(out, "pairs.json").write_text(json.dumps({"device": given.device, "pairs": rows}, indent=1))
    return 0 if given.device == "cpu" or held >= min(ENOUGH, len(rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
