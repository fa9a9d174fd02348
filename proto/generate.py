"""Make the Python stubs in ``proto/gen`` from the contract, or check that they are fresh (``--check``).

The tools are old on purpose: stubs of grpcio-tools 1.62 load on every protobuf from 4.25 to 7 and every grpcio from
1.62, while those of newer tools refuse older runtimes, and services pin theirs. They live in an environment of their
own, ``.dev/proto-tools``, made on first use.

The contract's package is ``midwatch.v1``, a name that the agent's package hides in Python. So the files are compiled
from a copy in which imports say ``midwatch_proto``: Python gets ``midwatch_proto.v1``, the wire keeps ``midwatch.v1``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROTO = Path(__file__).resolve().parent
SOURCES = PROTO / "midwatch" / "v1"
OUTPUT = PROTO / "gen" / "midwatch_proto" / "v1"
TOOLS = PROTO.parent / ".dev" / "proto-tools"
PINS = ("grpcio-tools==1.62.3", "mypy-protobuf==3.6.0", "protobuf==4.25.8", "setuptools==75.8.0")
NEWEST_PYTHON = (3, 12)
"""The newest that the pinned grpcio-tools has wheels for; what it writes does not depend on it."""


def main() -> int:
    """Write the stubs, or with ``--check`` compare them; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a stub is not fresh")
    check: bool = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        fresh, committed = compile_to(Path(scratch)), stubs()
    stale = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))
    if check:
        for name in stale:
            sys.stderr.write(f"{OUTPUT.name}/{name} is not what the contract says; run ./dev proto\n")
        return 1 if stale else 0
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    for name, data in fresh.items():
        (OUTPUT / name).write_bytes(data)
    sys.stdout.write(f"{len(fresh)} stubs written, {len(stale)} of them changed\n")
    return 0


def stubs() -> dict[str, bytes]:
    """The committed stubs by file name."""
    return {path.name: path.read_bytes() for path in OUTPUT.glob("*.py*") if path.is_file()}


def compile_to(scratch: Path) -> dict[str, bytes]:
    """Compile a copy of the contract in ``scratch`` and return the stubs by file name."""
    python = tools()
    package = scratch / "in" / "midwatch_proto" / "v1"
    package.mkdir(parents=True)
    for source in sorted(SOURCES.glob("*.proto")):
        text = source.read_text(encoding="utf-8").replace('import "midwatch/', 'import "midwatch_proto/')
        (package / source.name).write_text(text, encoding="utf-8")
    out = scratch / "out"
    out.mkdir()
    outputs = [f"--python_out={out}", f"--mypy_out=quiet:{out}"]
    files = [str(path) for path in sorted(package.glob("*.proto"))]
    services = [path for path in files if "\nservice " in Path(path).read_text(encoding="utf-8")]
    protoc(python, scratch, [*outputs, *files])
    protoc(python, scratch, [f"--grpc_python_out={out}", f"--mypy_grpc_out=quiet:{out}", *services])
    made = {path.name: path.read_bytes() for path in (out / "midwatch_proto" / "v1").iterdir()}
    made["__init__.py"] = b'"""The messages and services of ``midwatch.v1``."""\n'
    return made


def protoc(python: Path, scratch: Path, arguments: list[str]) -> None:
    """Run the pinned protoc with the plug-ins that lie beside its Python."""
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [str(python), "-m", "grpc_tools.protoc", f"-I{scratch / 'in'}", *arguments]
    subprocess.run(command, check=True, env=environment)


def tools() -> Path:
    """Return the Python of the tools' environment, which is made where it is missing or made from other pins."""
    python = TOOLS / "bin" / "python"
    stamp = TOOLS / "pins.txt"
    pins = "\n".join(PINS) + "\n"
    if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == pins:
        return python
    shutil.rmtree(TOOLS, ignore_errors=True)
    subprocess.run([base_python(), "-m", "venv", str(TOOLS)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PINS], check=True)
    stamp.write_text(pins, encoding="utf-8")
    return python


def base_python() -> str:
    """Return a Python that the pinned tools have wheels for."""
    if sys.version_info[:2] <= NEWEST_PYTHON:
        return sys.executable
    for minor in (12, 11, 10):
        if found := shutil.which(f"python3.{minor}"):
            return found
    raise SystemExit("The stubs need a Python of 3.10 to 3.12 to be made; put one on PATH and run this again.")


if __name__ == "__main__":
    sys.exit(main())
