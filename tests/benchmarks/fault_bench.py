"""Prints what Midwatch says of services with one planted host-side fault each, and of healthy ones.

    python tests/benchmarks/fault_bench.py [--seconds 25] [--only NAME ...]

Each service runs by itself with nothing but the agent attached, against one collector. Faults in one of 25 to 100
requests must be caught in the act: the row tells the spikes that were told, of these how many had the right first
finding, and of those that took 20 ms and more how many named the planted line. Faults in each request never spike: a
window of 20 requests is ordered. Of a healthy service nothing may be told, neither by a spike nor by such a window.

Always 0 unless `--strict` is given; then 1 where fewer than 95 of 100 first findings are right, a healthy service has
one, or fewer than 9 of 10 long spikes were caught.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from device_bench import profile
from faults import hostside, runner
from faults.expected import CLEAN
from faults.hostside import HostFault, Planted
from midwatch.model.incident import SpikeDetail
from midwatch_client.api import Client

WARM_S = 6.0
"""Before a window is ordered."""
LATE_S = 2.0
"""For the last spikes to arrive."""
ENOUGH = 0.95
CAUGHT = 0.9


@dataclass(frozen=True, slots=True)
class Row:
    """What was said of one service."""

    expected: HostFault
    first: str
    at: str
    ok: bool
    told: int = 0
    of_planted: int = 0
    right: int = 0
    long: int = 0
    caught: int = 0
    others: str = ""


def run(expected: HostFault, client: Client, folder: Path, seconds: float) -> Row:
    """Run one service, and say what was found."""
    record, log = folder / f"{expected.name}.record", folder / f"{expected.name}.log"
    record.unlink(missing_ok=True)
    name = expected.label.replace(" ", "-").strip("()")
    arguments = [str(expected.path), "--seconds", str(seconds), "--record", str(record)]
    if expected.every:
        arguments += ["--every", str(expected.every)]
    environment = {
        "MIDWATCH_SERVICE": name,
        "MIDWATCH_COLLECTOR": client.address,
        "MIDWATCH_STATE_DIR": str(folder / "state"),
        "MIDWATCH_ROUTINE": "0",
    }
    detail = None
    with runner.process(arguments, log, environment) as running:
        runner.poll(name, lambda: client.agents(name, connected_only=True), runner.START_S, running, log)
        if expected.every == 1 or expected.kind == CLEAN:
            time.sleep(WARM_S)
            detail = profile(client, name)
        runner.poll(name, lambda: record.exists() or None, seconds + runner.START_S, running, log)
    time.sleep(LATE_S)
    if detail is None:
        return spiky(expected, [client.spike(one.spike.spike_id) for one in client.spikes(name)], record)
    if isinstance(detail, str):
        return Row(expected, "no window", detail[:60], ok=False)
    incidents = [f"{incident.kind.value} x{incident.count}" for incident in client.incidents(name)]
    findings = detail.diagnosis.findings
    verdict = detail.diagnosis.verdict.value
    if expected.kind == CLEAN:
        told = client.spikes(name)
        first = findings[0].kind.value if findings else verdict
        at = hostside.where(findings[0]) if findings else ""
        return Row(expected, first, at, not findings and not incidents, len(told), others=", ".join(incidents))
    if not findings:
        return Row(expected, verdict, detail.diagnosis.reason[:60], ok=False)
    others = ", ".join(finding.kind.value for finding in findings[1:])
    return Row(
        expected, findings[0].kind.value, hostside.where(findings[0]), hostside.right(findings[0], expected),
        others=others,
    )  # fmt: skip


def spiky(expected: HostFault, spikes: list[SpikeDetail], record: Path) -> Row:
    """The row of a service whose fault comes now and then."""
    had = hostside.planted(record)
    mine = [spike for spike in spikes if any(is_of(one, spike) for one in had)]
    firsts = Counter(
        (spike.diagnosis.findings[0].kind.value, hostside.where(spike.diagnosis.findings[0]))
        for spike in spikes
        if spike.diagnosis.findings
    )
    (first, at), _ = firsts.most_common(1)[0] if firsts else (("nothing", ""), 0)
    good = [
        spike for spike in mine if spike.diagnosis.findings and hostside.right(spike.diagnosis.findings[0], expected)
    ]
    long = [spike for spike in mine if spike.spike.request.duration_ns >= hostside.LONG_NS]
    caught = sum(any(hostside.right(finding, expected) for finding in spike.diagnosis.findings) for spike in long)
    others = ", ".join(f"{kind} {at} x{count}" for (kind, at), count in firsts.most_common()[1:])
    strangers = len(spikes) - len(mine)
    return Row(
        expected, first, at, bool(good) and 2 * len(good) > len(mine), len(mine), len(had), len(good), len(long),
        caught, others + (f"; {strangers} told of other requests" if strangers else ""),
    )  # fmt: skip


def is_of(one: Planted, spike: SpikeDetail) -> bool:
    """Whether a spike is that request."""
    request = spike.spike.request
    return hostside.same_request(one, request.start_unix_ns, request.duration_ns)


def show(row: Row) -> None:
    """One line of the table."""
    expected = row.expected
    counts = f"{row.right}/{row.told} of {row.of_planted}" if row.of_planted else f"{row.told} told" if row.told else ""
    caught = f"{row.caught}/{row.long}" if row.long else ""
    print(
        f"{expected.label:<22} {expected.kind:<15} {row.first:<15} {row.at:<26} {counts:<13} {caught:<6}"
        f" {'ok' if row.ok else 'WRONG':<6} {row.others}".rstrip(),
        flush=True,
    )


def main() -> int:
    """Run all services, print all rows and the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=25.0, help="that each service serves")
    parser.add_argument("--only", nargs="*", default=(), help="names of services")
    parser.add_argument("--strict", action="store_true", help="fail where the shares are missed")
    options = parser.parse_args()
    services = [
        one
        for one in (*hostside.SPIKY, *hostside.ALWAYS, *hostside.HEALTHY)
        if not options.only or one.name in options.only
    ]
    rows = []
    print(f"{'service':<22} {'planted':<15} {'first finding':<15} {'at':<26} {'right/told':<13} {'caught':<6}")
    with tempfile.TemporaryDirectory(prefix="midwatch-faults-") as name, runner.collector(Path(name)) as client:
        for expected in services:
            try:
                rows.append(run(expected, client, Path(name), options.seconds))
            except RuntimeError as error:
                rows.append(Row(expected, "failed", str(error).splitlines()[-1][:80], ok=False))
            show(rows[-1])
    ill = [row for row in rows if row.expected.kind != CLEAN]
    well = [row for row in rows if row.expected.kind == CLEAN]
    good, quiet = sum(row.ok for row in ill), sum(row.ok for row in well)
    caught, long = sum(row.caught for row in ill), sum(row.long for row in ill)
    print(f"first finding right: {good} of {len(ill)}; nothing said of {quiet} of {len(well)} healthy ones")
    print(f"spikes of 20 ms and more whose line was caught in that very request: {caught} of {long}")
    enough = good >= ENOUGH * len(ill) and quiet == len(well) and caught >= CAUGHT * long
    return 0 if enough or not options.strict else 1


if __name__ == "__main__":
    sys.exit(main())
