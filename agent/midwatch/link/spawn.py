"""Executing the companion: which interpreter, with which environment, without a stall of the service.

`subprocess` uses ``vfork`` as long as no ``preexec_fn`` is given: the heap of the service is never copied.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from midwatch import forks

_UNWANTED = ("PYTHON", "KINETO_", "CUDA_INJECTION", "COVERAGE_", "COV_CORE_", "NSYS_")
"""Settings meant for the service: ``PYTHONWARNINGS=error`` or a start-up script would break or slow the child."""
_KEPT = ("PYTHONHOME", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONNOUSERSITE")


def interpreter_problem(executable: str | None = None) -> str:
    """Return "" where ``sys.executable`` can run the companion, or one sentence that says why not."""
    executable = sys.executable if executable is None else executable
    if not executable:
        return "this interpreter is embedded and names no Python executable, so there is no companion process"
    if getattr(sys, "frozen", False):
        return f"{executable} is a frozen program and not a Python, so there is no companion process"
    if not Path(executable).name.lower().startswith(("python", "pypy")):
        return f"{executable} is not a Python, so there is no companion process; run the service with a Python"
    if not os.access(executable, os.X_OK):
        return f"{executable} cannot be executed, so there is no companion process"
    return ""


def child_environment(environ: Mapping[str, str], path: list[str]) -> dict[str, str]:
    """Return the companion's environment: the service's own, without what is meant for the service alone.

    ``path`` is the service's ``sys.path``. Folders that hold a ``sitecustomize`` stay out, since tools that
    instrument a service put one first on the path, and the companion must not be instrumented.
    """
    child = {name: value for name, value in environ.items() if not name.startswith(_UNWANTED) or name in _KEPT}
    child["MIDWATCH_ENABLED"] = "0"
    child["PYTHONPATH"] = os.pathsep.join(_import_path(path))
    return child


def spawn_companion(fds: tuple[int, ...], hello: bytes, log_path: str) -> subprocess.Popen[bytes]:
    """Execute the companion in a session of its own and hand it its ``hello`` on standard input.

    ``fds`` are what it inherits: its end of the socket, then what it holds for as long as it lives, such as the lock
    on the trace directory, which is thus never free in between. ``hello`` must be shorter than a pipe holds (64 KiB),
    so that writing it never waits.

    Raises:
        OSError: the process could not be started.
    """
    with forks.held_off(), _log(log_path) as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "midwatch.companion", "--fd", str(fds[0]), "--parent", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=fds,
            cwd="/",  # `-m` puts the current folder first on the path, and the service's may hold anything
            env=child_environment(os.environ, sys.path),
            start_new_session=True,
        )
        assert process.stdin is not None
        # Where it died at once, the next tick sees that.
        with contextlib.suppress(OSError), process.stdin:
            process.stdin.write(hello + b"\n")
    return process


def _log(path: str) -> IO[bytes]:
    """Open the companion's log, or a hole where none is wanted or none can be written."""
    if path:
        with contextlib.suppress(OSError):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return Path(path).open("ab")
    return Path(os.devnull).open("wb")


def _import_path(path: list[str]) -> list[str]:
    own = Path(__file__).resolve().parents[2]
    folders = dict.fromkeys([own, *(Path(entry).absolute() for entry in path)])
    return [str(folder) for folder in folders if os.pathsep not in str(folder) and not _customises(folder)]


def _customises(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("sitecustomize.py", "usercustomize.py"))
