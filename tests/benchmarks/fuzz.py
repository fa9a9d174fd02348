"""Coverage-guided fuzzing of the reader and the gzip layer: whatever the file holds, a summary or one clear sentence.

    python tests/benchmarks/fuzz.py --minutes 20         with atheris, in an environment of its own
    python tests/benchmarks/fuzz.py --blind --minutes 5  without it: the same changes, chosen by chance alone

The corpus is made of the traces under tests/data, and of those in --traces (default ../shared/field/traces where there
are any), shrunk to some events of each kind; what the fuzzer adds to it stays in .dev/fuzz/corpus, so that a run goes
on where the last one ended. A failing file lies in .dev/fuzz/failures beside its traceback. Ends with 1 where one did.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [str(ROOT / name) for name in ("agent", "server", "client", "proto/gen", "migrations")]
sys.path[:0] = [str(Path(__file__).resolve().parent / "fuzzing"), *PACKAGES]

# ruff: noqa: E402
from mutate import corpus, mutated, packed
from target import Failures, judge


def blind(texts: list[bytes], failures: Failures, seconds: float, seed: int) -> None:
    """Change traces by chance until the time is up."""
    rng = random.Random(seed)
    counts = {"read": 0, "refused": 0, "failed": 0}
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.json")
        while time.monotonic() < until:
            text = rng.choice(texts)
            for _ in range(rng.randint(1, 3)):
                text = mutated(text, rng)
            content = packed(text, rng)
            path.write_bytes(content)
            try:
                counts[judge(path)] += 1
            except Exception as error:
                counts["failed"] += 1
                failures.add(content, error)
    print(f"DONE {sum(counts.values())} files: {counts}")


def guided(texts: list[bytes], home: Path, seconds: float, seed: int) -> int:
    """Have atheris change them, guided by what part of the reader each change reaches."""
    kept = home / "corpus"
    kept.mkdir(parents=True, exist_ok=True)
    for text in texts:
        (kept / hashlib.sha1(text, usedforsecurity=False).hexdigest()).write_bytes(text)
    python = home / "env" / "bin" / "python"
    if not python.exists() or subprocess.run([python, "-c", "import atheris"], check=False).returncode:
        print(f"installing atheris into {home / 'env'}", file=sys.stderr)
        venv.create(home / "env", with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "atheris"], check=True
        )
    found = subprocess.run(
        [
            *(python, ROOT / "tests" / "benchmarks" / "fuzzing" / "guided.py", str(seconds), home / "failures", kept),
            *(
                "-max_len=40000",
                "-timeout=30",
                "-rss_limit_mb=8000",
                f"-seed={seed}",
                f"-artifact_prefix={home}/failures/",
            ),
        ],
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*PACKAGES, sysconfig.get_path("purelib")]),
            "OPENBLAS_NUM_THREADS": "1",
        },
    )
    return found.returncode


def main() -> int:
    """Fuzz for as long as is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--blind", action="store_true", help="without atheris")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared" / "field" / "traces")
    arguments = parser.parse_args()
    home = ROOT / ".dev" / "fuzz"
    (home / "failures").mkdir(parents=True, exist_ok=True)
    texts = corpus(folder for folder in (ROOT / "tests" / "data", arguments.traces) if folder.is_dir())
    print(f"{len(texts)} traces of {sum(map(len, texts)) / len(texts) / 1000:.1f} kB in the corpus", flush=True)
    if not arguments.blind:
        return guided(texts, home, arguments.minutes * 60, arguments.seed)
    failures = Failures(home / "failures")
    blind(texts, failures, arguments.minutes * 60, arguments.seed)
    return 1 if failures.seen else 0


if __name__ == "__main__":
    sys.exit(main())
