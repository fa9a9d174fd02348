"""What the direct engine does to a real service: lost kernels, hangs, memory, the freeze, and whose line is sampled.

    python tests/benchmarks/soak.py                      everything, about 9 minutes on one GPU
    python tests/benchmarks/soak.py --quick              small numbers, also without a GPU
    python tests/benchmarks/soak.py --parts freeze16,freeze2,user,batcher,exit       about 3 minutes

Every part runs in a process of its own with a time limit: a crash or a hang in one is a row of the table. The freezes
and the soak run alone, all other parts beside each other. Results go to standard output and, as soak.json and a log of
each failed part, into $OUT.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agent"))

from soaking.parts import ALONE, LIMIT_S, LIMITS_S, PARTS, run_part

_HEAD, _TAIL = 1500, 3000


def start(name, arguments, folder):
    folder.mkdir()
    command = [sys.executable, __file__, "--part", name, "--folder", str(folder), "--device", arguments.device]
    if arguments.quick:
        command.append("--quick")
    with Path(folder, "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def finish(name, process, folder, deadline):
    """The part's result, or how it ended."""
    try:
        code = process.wait(max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR1)  # where does it hang?
        time.sleep(2)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        code = "hang (killed at its time limit)"
    result = Path(folder, "result.json")
    values = json.loads(result.read_text()) if result.exists() else {}  # it may have hung after its work
    if code == 0 and values:
        return values
    log = Path(folder, "log").read_text(errors="replace")
    if os.environ.get("OUT"):
        Path(os.environ["OUT"], f"{name}.log").write_text(log)
    shown = log if len(log) <= _HEAD + _TAIL else f"{log[:_HEAD]}\n[…]\n{log[-_TAIL:]}"
    return {"failed": f"exit {code}" if isinstance(code, int) else code, **values, "log": shown}


def show(name, result):
    print(f"\n== {name}: {PARTS[name].__doc__.splitlines()[0]}")
    for key, value in result.items():
        if key == "log":
            print("   " + value.replace("\n", "\n   "))
        elif isinstance(value, dict) and any(isinstance(v, dict | list) for v in value.values()):
            print(f"  {key}:")
            for inner, text in value.items():
                print(f"    {inner:<24} {json.dumps(text)}")
        else:
            print(f"  {key:<26} {json.dumps(value)}")
    sys.stdout.flush()


def build():
    from midwatch.capture.build import ShimBuildError, build_shim

    try:
        build_shim()
    except ShimBuildError as error:
        print(f"the shim was not built here: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        run_part(arguments.part, arguments.quick, arguments.device, Path(arguments.folder))
        return 0
    names = arguments.parts.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    build()
    if os.environ.get("OUT"):
        Path(os.environ["OUT"]).mkdir(parents=True, exist_ok=True)
    groups = [[n] for n in names if n in ALONE] + [[n for n in names if n not in ALONE]]
    results = {}
    with tempfile.TemporaryDirectory(prefix="soak-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        for group in filter(None, groups):
            started = [(name, start(name, arguments, Path(scratch, name)), time.monotonic()) for name in group]
            for name, process, at in started:
                results[name] = finish(name, process, Path(scratch, name), at + LIMITS_S.get(name, LIMIT_S))
                show(name, results[name])
                if os.environ.get("OUT"):
                    Path(os.environ["OUT"], "soak.json").write_text(json.dumps(results, indent=1))
    return 1 if any("failed" in r for r in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
