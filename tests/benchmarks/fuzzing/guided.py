"""The fuzzer itself, in an environment that has atheris: coverage of the reader guides what is tried next."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent))

with atheris.instrument_imports(include=["midwatch.trace", "midwatch_server.diagnosis"]):
    import midwatch.trace  # noqa: F401 - named, so that it is instrumented
    import midwatch_server.diagnosis  # noqa: F401

from mutate import mutated, packed
from target import Failures, judge


def main() -> None:
    """Fuzz: ``guided.py SECONDS CRASHES CORPUS [option of libFuzzer]...``."""
    seconds, crashes = float(sys.argv[1]), Path(sys.argv[2])
    failures, counts = Failures(crashes), {"read": 0, "refused": 0, "failed": 0}
    until = time.monotonic() + seconds
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="midwatch-fuzz-", dir=shm if shm.is_dir() else None))
    path = folder / "t.json"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        try:
            counts[judge(path)] += 1
        except Exception as error:
            counts["failed"] += 1
            failures.add(data, error)
        if time.monotonic() > until:
            path.unlink(missing_ok=True)
            folder.rmdir()
            print(f"DONE {sum(counts.values())} files: {counts}", flush=True)
            os._exit(1 if failures.seen else 0)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.1:
            return atheris.Mutate(data, most)
        return packed(mutated(data, rng), rng)[:most]

    atheris.Setup([sys.argv[0], *sys.argv[3:]], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
