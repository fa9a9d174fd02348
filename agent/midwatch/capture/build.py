"""Compiles the C++ shim. Standard library only: the wheel's build hook loads this file by its path.

``python -m midwatch.capture.build`` builds it beside this file.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.cpp")
LIBRARY = Path(__file__).with_name("_shim.so")

# libstdc++ stays shared: an exception thrown by torch can only be caught by code that uses the same C++ runtime, and
# the std::string passed to torch must be that runtime's.
_FLAGS = ("-std=c++11", "-O2", "-fPIC", "-shared", "-fvisibility=default", "-Wall", "-Wextra", "-Werror")


class ShimBuildError(Exception):
    """The shim could not be compiled; the text is one sentence for people."""


class NoCompilerError(ShimBuildError):
    """There is no C++ compiler. Midwatch works without one, with the direct engine off."""


def build_shim(target: Path = LIBRARY, *, force: bool = False) -> bool:
    """Compile ``shim.cpp`` to ``target``; returns False where it was up to date. Raises `ShimBuildError`."""
    if not force and target.exists() and target.stat().st_mtime >= SOURCE.stat().st_mtime:
        return False
    compiler = _compiler()
    if compiler is None:
        raise NoCompilerError("no C++ compiler was found: `apt-get install g++` (or set CXX) and build again")
    handle, scratch = tempfile.mkstemp(suffix=".so", prefix=".shim-", dir=target.parent)
    os.close(handle)
    try:
        done = subprocess.run(
            [*compiler, *_FLAGS, "-o", scratch, str(SOURCE)], capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode != 0:
            raise ShimBuildError(f"{compiler[0]} could not compile {SOURCE.name}: {done.stderr.strip()[-400:]}")
        Path(scratch).chmod(0o755)
        Path(scratch).replace(target)  # whole or not at all: another process may be loading it
    except (OSError, subprocess.SubprocessError) as error:
        raise ShimBuildError(f"the shim could not be built: {error}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(scratch).unlink()
    return True


def _compiler() -> list[str] | None:
    chosen = os.environ.get("CXX")
    for command in [shlex.split(chosen)] if chosen else [["c++"], ["g++"], ["clang++"]]:
        if command and shutil.which(command[0]):
            return command
    return None


def main() -> int:
    """Build the shim and say so; exit status 1 where a compiler failed, 0 where there is none."""
    try:
        built = build_shim(force="--force" in sys.argv[1:])
    except ShimBuildError as error:
        sys.stderr.write(f"midwatch: the direct engine is off: {error}\n")
        return 0 if isinstance(error, NoCompilerError) else 1
    sys.stdout.write(f"{'built' if built else 'up to date'}: {LIBRARY}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
