"""One run of a side as a process of its own: seconds by its own clock and by ours, and its peak memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path

HTA = "HolisticTraceAnalysis==0.5.0"
ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
PACKAGES = ("agent", "server", "client", "proto/gen", "migrations")


@dataclass(frozen=True)
class Run:
    """What one process took. ``work_s`` and ``cpu_s`` are without its start and its imports, the others with them."""

    wall_s: float
    work_s: float
    cpu_s: float
    used_s: float
    """CPU time of the whole process, of the user and of the system."""
    peak_mb: float
    events: int = 0
    caveats: tuple[str, ...] = ()


def run(python: Path, script: str, trace: Path, *arguments: str, **variables: str) -> Run:
    """Run ``script`` over ``trace``. Raises `RuntimeError` where it fails."""
    packages = os.pathsep.join(str(ROOT / package) for package in PACKAGES)
    environment = {**os.environ, **variables, "PYTHONPATH": packages}
    # Both sides run as they are installed: pip compiles HolisticTraceAnalysis, and the first run compiles Midwatch.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    process = subprocess.Popen(
        [str(python), str(HERE / script), str(trace), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        raise RuntimeError(f"{script} ended with {process.returncode} on {trace.name}; run it by hand to see why")
    told = json.loads(printed.splitlines()[-1])
    return Run(
        wall,
        told["work_s"],
        told["cpu_s"],
        used.ru_utime + used.ru_stime,
        peak_mb(used),
        told.get("events", 0),
        tuple(told.get("caveats", ())),
    )


def peak_mb(used: resource.struct_rusage) -> float:
    """Peak resident memory: of the largest process, where a side starts some."""
    return used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def midwatch(trace: Path, memory_bytes: int = 2 << 30) -> Run:
    """Midwatch, in this environment; as in the agent's reader and in `midwatch analyze`, numpy starts no threads."""
    return run(Path(sys.executable), "midwatch_side.py", trace, str(memory_bytes), OPENBLAS_NUM_THREADS="1")


def hta_python(folder: Path) -> Path:
    """Python of an environment that holds HolisticTraceAnalysis; it is made where it is missing."""
    python = folder / "bin" / "python"
    known = python.exists() and subprocess.run([python, "-c", "import hta"], check=False).returncode == 0
    if not known:
        print(f"installing {HTA} into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", HTA], check=True)
    return python
