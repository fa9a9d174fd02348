"""Prints what Midwatch says of the same lines at two sizes, and of the difference: a matmul and an add, 64 and 4096."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import device_bench
from faults import runner
from faults.expected import Expected
from midwatch_client.api import Client

SETTLE_S = 2.5
SIZES = ((64, "launch_bound"), (4096, "kernel_bound"))
"""Rows and columns, and the first finding that is right."""


def window(client: Client, folder: Path, device: str, size: int, kind: str, kept: Path) -> str:
    """Keep the raw trace of one window at ``size`` as ``kept``; return the kind found first, or why there is none."""
    service = Expected("matmul_add", kind, host_side=False)
    with runner.service(service, client, folder, device, 60.0, ("--size", str(size))):
        time.sleep(SETTLE_S)
        detail = device_bench.profile(client, service.name)
        if isinstance(detail, str):
            return detail
        client.trace(detail.capture.capture_id, kept)
        findings = detail.diagnosis.findings
        return findings[0].kind.value if findings else detail.diagnosis.verdict.value


def say(*arguments: str) -> None:
    """Run one command of Midwatch's, its output after it."""
    print("\n$ midwatch " + " ".join(Path(one).name if "/" in one else one for one in arguments), flush=True)
    subprocess.run([sys.executable, "-m", "midwatch_client", *arguments], check=False)


def main() -> int:
    """Run both sizes; 0 when both first findings are right (always 0 on a CPU)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--keep", type=Path, help="a folder for the two raw traces")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="midwatch-sizes-") as name:
        kept = given.keep or Path(name)
        kept.mkdir(parents=True, exist_ok=True)
        files = [kept / f"matmul_add_{size}.json.gz" for size, _ in SIZES]
        with runner.collector(Path(name)) as client:
            for (size, kind), file in zip(SIZES, files, strict=True):
                found.append(window(client, Path(name), given.device, size, kind, file))
                print(f"{size} by {size}: {found[-1]} (expected {kind})", flush=True)
        for file in files:
            say("analyze", str(file))
        say("diff", *map(str, files))
    right = all(kind == said for (_, kind), said in zip(SIZES, found, strict=True))
    return 0 if given.device == "cpu" or right else 1


if __name__ == "__main__":
    sys.exit(main())
