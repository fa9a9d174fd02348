"""Prints what Midwatch finds in one-fault services (kind, line, cost, gain), and what its windows cost the requests."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from faults import expected as truth
from faults import latency, runner
from midwatch.model.incident import CaptureDetail
from midwatch_client.api import Client, Progress
from midwatch_client.errors import CollectorError

SETTLE_MS = 400.0
"""After stop and save the session is torn down and the tracks are written: that belongs to the window as well."""
WINDOW_S = 0.2
QUIET_S = 3.2
"""Pause between two windows, in which the baseline is taken."""


def find_faults(client: Client, folder: Path, device: str, keep: Path | None, *, quick: bool) -> list[dict[str, Any]]:
    """Run every service by itself, order a window, and set its first finding beside the truth."""
    rows = []
    for expected in truth.ALL:
        try:
            with runner.service(expected, client, folder, device, seconds=60.0):
                time.sleep(1.0 if quick else 2.5)
                detail = profile(client, expected.name)
                rows.append(judge(expected, detail, routine(client, expected.name)))
                if keep is not None and isinstance(detail, CaptureDetail):
                    client.trace(detail.capture.capture_id, keep / f"{expected.name}.json.gz")
        except RuntimeError as error:  # one that does not start must not cost the rest of a device's time
            rows.append(judge(expected, str(error), "-"))
        print_fault_row(rows[-1])
    return rows


def profile(client: Client, name: str) -> CaptureDetail | str:
    """A window of 20 requests, or why there is none; one that comes too soon after another is asked for again."""
    until = time.monotonic() + 8.0
    while isinstance(answer := attempt(client, name), str) and time.monotonic() < until:
        time.sleep(1.5)
    return answer


def attempt(client: Client, name: str) -> CaptureDetail | str:
    """One order, or why it came to nothing."""
    try:
        return client.profile(name, requests=20)
    except CollectorError as error:
        return str(error)


def routine(client: Client, name: str) -> str:
    """What the agent's own look after warm-up found: the kinds in its order, or the verdict."""
    for seen in client.captures(name):
        if seen.capture.reason == "routine" and seen.capture.state == "done":
            found = [finding.kind.value for finding in seen.diagnosis.findings]
            return ", ".join(found) or seen.diagnosis.verdict.value
    return "none yet"


def judge(expected: truth.Expected, detail: CaptureDetail | str, routine_says: str) -> dict[str, Any]:
    """One row of the table."""
    row: dict[str, Any] = {
        "service": expected.name,
        "expected": expected.kind,
        "line": expected.line,
        "routine": routine_says,
    }
    if isinstance(detail, str):
        return {**row, "found": "no window", "why": detail, "ok": False}
    findings = detail.diagnosis.findings
    row["verdict"] = detail.diagnosis.verdict.value
    row["engine"] = detail.capture.engine
    row["others"] = [finding.kind.value for finding in findings[1:]]
    if not findings:
        return {**row, "found": row["verdict"], "why": detail.diagnosis.reason, "ok": row["verdict"] == expected.kind}
    first = findings[0]
    row |= {
        "found": first.kind.value,
        "at": f"{Path(first.site.file).name}:{first.site.line}" if first.site else "",
        "exact": bool(first.site and first.site.exact),
        "per_request_ms": round(first.per_request_ms, 3),
        "recoverable_ms": round(first.recoverable_ms, 3),
        "title": first.title,
    }
    line_right = not expected.host_side or (row["exact"] and expected.is_at(first.site))
    return {**row, "ok": row["found"] == expected.kind and line_right}


def print_fault_row(row: dict[str, Any]) -> None:
    """One line of the table, as soon as it is known."""
    exact = "" if "exact" not in row else "exact" if row["exact"] else "about"
    cost = f"{row['per_request_ms']:>8.2f} {row['recoverable_ms']:>8.2f}" if "per_request_ms" in row else " " * 17
    marked = f"{row['service']}.py:{row['line']}" if row["line"] else "-"
    print(
        f"{row['service']:<13} {row['expected']:<13} {row['found']:<18} {marked:<20} {row.get('at', ''):<24} {exact:<6}"
        f"{cost}  {row.get('engine', ''):<7} {'ok' if row['ok'] else 'WRONG':<6} routine: {row['routine']}"
        + (f"  ({row['why']})" if row.get("why") else ""),
        flush=True,
    )


def cost_of_windows(
    client: Client, folder: Path, device: str, keep: Path | None, *, windows: int, quiet_s: float
) -> dict[str, Any]:
    """Take windows of one launch-bound service and compare its latencies in them with those between them.

    The first window of a process, which attaches for the first time and names every place anew, is a row of its own.
    """
    expected = next(one for one in truth.ALL if one.name == truth.WINDOWS_ON)
    captures: list[CaptureDetail] = []
    opened_ms: list[float] = []
    refused: list[str] = []
    with runner.service(expected, client, folder, device, seconds=300.0) as latencies:
        time.sleep(2 * quiet_s)
        for _ in range(windows + 1):
            began = time.perf_counter()

            def note(step: Progress, began: float = began) -> None:
                if step.state == "open":
                    opened_ms.append((time.perf_counter() - began) * 1e3)

            try:
                captures.append(client.profile(expected.name, seconds=WINDOW_S, on_progress=note))
            except CollectorError as error:
                refused.append(str(error))
            time.sleep(quiet_s)
    requests = latency.read(latencies)
    worst = worst_of(captures, requests)
    if keep is not None and worst:
        client.trace(worst[0]["capture_id"], keep / "worst_window.json.gz")
    first, *spans = [span_of(detail) for detail in captures]
    baseline, twin = latency.quiet_stretches(spans, int(0.3e9))
    named = (("first window", [first]), ("in windows", spans), ("baseline", baseline), ("A/A", twin))
    ready = [detail.capture.ready_ms for detail in captures[1:]]
    return {
        "rows": [latency.row(name, requests, stretches).plain() for name, stretches in named],
        "ready_ms": summary_of(ready),
        "client_to_open_ms": summary_of(opened_ms[1:]),
        "stop_ms": summary_of([detail.capture.stop_ms for detail in captures]),
        "empty": sum(detail.capture.state != "done" for detail in captures),
        "refused": refused,
        "worst": worst,
    }


def worst_of(captures: list[CaptureDetail], requests: list[latency.Span]) -> list[dict[str, Any]]:
    """The worst request of each window, the slowest first, and where it lay: milliseconds since the window's order."""
    rows = []
    for number, detail in enumerate(captures):
        capture, (begin, end) = detail.capture, span_of(detail)
        inside = [request for request in requests if request[0] < end and request[1] > begin]
        if not inside:
            continue
        start, stop = max(inside, key=lambda request: request[1] - request[0])
        places = {"starts": start, "ends": stop, "open": capture.start_unix_ns, "close": capture.end_unix_ns}
        after_order = {f"{name}_ms": round((unix_ns - begin) / 1e6, 2) for name, unix_ns in places.items()}
        saved = round(after_order["close_ms"] + capture.stop_ms, 2)
        took = round((stop - start) / 1e6, 2)
        rows.append(
            {"window": number, "capture_id": capture.capture_id, "took_ms": took, **after_order, "saved_ms": saved}
        )
    return sorted(rows, key=lambda row: -row["took_ms"])


def span_of(detail: CaptureDetail) -> latency.Span:
    """From the order to the end of the tear-down."""
    capture = detail.capture
    return capture.ordered_unix_ns, capture.end_unix_ns + int((capture.stop_ms + SETTLE_MS) * 1e6)


def summary_of(values: list[float]) -> dict[str, float]:
    """Count, median and maximum; a count of 0 where nothing was seen."""
    if not values:
        return {"count": 0, "median": 0.0, "max": 0.0}
    return {"count": len(values), "median": round(statistics.median(values), 3), "max": round(max(values), 3)}


def spike_to_incident(client: Client, folder: Path, device: str, *, seconds: float) -> dict[str, Any]:
    """Plant spikes, and time from the end of each slow request until a client that watches hears of its incident."""
    heard: list[tuple[str, int]] = []
    with Client(client.address) as watching:

        def follow() -> None:
            try:
                for sighting in watching.watch_incidents(truth.SPIKE.name):
                    occurrence = sighting.occurrence
                    if occurrence is not None and occurrence.spike_id and truth.SPIKE.is_at(occurrence.finding.site):
                        heard.append((occurrence.spike_id, time.time_ns()))
            except (CollectorError, ValueError):
                return  # the connection was closed: the bench is over

        watcher = threading.Thread(target=follow, daemon=True)
        watcher.start()
        with runner.service(truth.SPIKE, client, folder, device, seconds=seconds + 60.0):
            time.sleep(seconds)
    watcher.join(timeout=2.0)
    waited: dict[str, float] = {}
    for spike_id, unix_ns in heard:
        request = client.spike(spike_id).spike.request
        waited.setdefault(spike_id, (unix_ns - request.start_unix_ns - request.duration_ns) / 1e9)
    return {"seconds": summary_of(list(waited.values()))}


def words(summary: dict[str, float], unit: str) -> str:
    """A summary as text."""
    if not summary["count"]:
        return "not seen"
    return f"median {summary['median']:g} {unit}, max {summary['max']:g} {unit} of {summary['count']}"


def print_costs(costs: dict[str, Any], spikes: dict[str, Any]) -> None:
    """The second half of the report."""
    print(
        f"\n{'latency, ms':<12} {'stretches':>9} {'requests':>9}"
        f" {'p50':>8} {'p99':>8} {'worst':>8} {'median worst':>13}"
    )
    for row in costs["rows"]:
        print(
            f"{row['name']:<13}{row['stretches']:>9} {row['requests']:>9} {row['p50_ms']:>8.2f} {row['p99_ms']:>8.2f}"
            f" {row['worst_ms']:>8.2f} {row['median_worst_ms']:>13.2f}"
        )
    for row in costs["worst"][:4]:
        print(
            f"worst: {row['took_ms']:.2f} ms in window {row['window']},"
            f" {row['starts_ms']:.1f} to {row['ends_ms']:.1f} ms after its order"
            f" (open {row['open_ms']:.1f}, close {row['close_ms']:.1f}, saved {row['saved_ms']:.1f})"
        )
    for name, key in (
        ("order to open window, in the agent", "ready_ms"),
        ("the same, seen by the client", "client_to_open_ms"),
        ("stop and save", "stop_ms"),
    ):
        print(f"{name}: {words(costs[key], 'ms')}")
    print(
        f"windows without records: {costs['empty']}; refused or failed: {len(costs['refused'])} {costs['refused'][:2]}"
    )
    print(f"spike to stored incident, on the planted line: {words(spikes['seconds'], 's')}")


def main() -> int:
    """Run all, print all; 0 when every service was judged rightly (always 0 on a CPU, where most faults cannot be)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--quick", action="store_true", help="shorter, to see whether it runs")
    parser.add_argument("--windows", type=int, default=0, help="how many windows to time (20, or 5 when quick)")
    parser.add_argument("--keep", type=Path, help="a folder for the raw trace of each judged window")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    windows = given.windows or (5 if given.quick else 20)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="midwatch-bench-") as name, runner.collector(Path(name)) as client:
        print(
            f"{'service':<13} {'expected':<13} {'found':<18} {'marked':<20} {'found at':<24}"
            f" {'':<6}{'cost ms':>8} {'gain ms':>8}"
        )
        rows = find_faults(client, Path(name), given.device, given.keep, quick=given.quick)
        costs = cost_of_windows(
            client, Path(name), given.device, given.keep, windows=windows, quiet_s=1.5 if given.quick else QUIET_S
        )
        spikes = spike_to_incident(client, Path(name), given.device, seconds=10.0 if given.quick else 15.0)
    print_costs(costs, spikes)
    right = sum(row["ok"] for row in rows)
    print(f"{right} of {len(rows)} services judged rightly; {time.monotonic() - began:.0f} s in all")
    if out := os.environ.get("OUT"):
        document = {"device": given.device, "services": rows, "windows": costs, "spikes": spikes}
        Path(out, "device_bench.json").write_text(json.dumps(document, indent=1))
    return 0 if given.device == "cpu" or right == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
