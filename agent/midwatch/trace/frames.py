"""Whose code a frame is: the service's own, or torch's, the interpreter's, a framework's or Midwatch's."""

from __future__ import annotations

import re
import sys
from functools import lru_cache

from midwatch.model.site import Frame

_PLUMBING = frozenset(
    [
        "torch",
        "torchgen",
        "torchvision",
        "torchaudio",
        "functorch",
        "triton",
        "numpy",
        "midwatch",
        "uvicorn",
        "starlette",
        "fastapi",
        "anyio",
        "sniffio",
        "uvloop",
        "gunicorn",
        "werkzeug",
        "flask",
        "django",
        "asgiref",
        "hypercorn",
        "h11",
        "httptools",
        "grpc",
        "opentelemetry",
        "pydantic",
        "pydantic_core",
        "concurrent",
        "runpy",
    ],
)
"""Packages whose lines nobody can change to mend a service; the frame that called them is the answer."""

_LIBRARY = re.compile(r"^.*?(?:site-packages|dist-packages)[/\\]")
_PYTHON = re.compile(r"^.*?[/\\]lib[/\\]python3(?:\.\d+)?[/\\]")
_PY_NAME = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.+)$")
_BUILTIN = re.compile(r"^<built-in (?:function|method) (?P<name>[^\s>]+)")

BLOCKING = frozenset(
    [
        "sleep",
        "recv",
        "recv_into",
        "recvfrom",
        "send",
        "sendall",
        "read",
        "readline",
        "readinto",
        "write",
        "flush",
        "fsync",
        "fdatasync",
        "connect",
        "accept",
        "select",
        "poll",
        "epoll_wait",
        "wait",
        "join",
        "get",
        "put",
        "result",
        "communicate",
        "waitpid",
        "getaddrinfo",
        "urlopen",
        "open",
    ],
)
"""Calls that wait for something outside the interpreter."""
LOCKING = frozenset(["acquire", "__enter__", "wait_for", "_wait_for_tstate_lock"])
IDLE = frozenset(["select", "poll", "epoll_wait", "epoll", "kqueue", "control"])
"""What an event loop does when it has nothing to do."""


@lru_cache(maxsize=65536)
def is_user_file(file: str, module: str = "") -> bool:
    """Return whether a frame of this file belongs to the service or to a library worth naming."""
    if file.startswith("<"):
        return False
    short = _LIBRARY.sub("", file)
    if short == file and _PYTHON.match(file):
        return False
    top = (module or re.sub(r"\.pyc?$", "", short.replace("\\", "/").lstrip("./").split("/", 1)[0])).split(".", 1)[0]
    return top not in _PLUMBING and (top not in sys.stdlib_module_names or top == "__main__")


def is_user(frame: Frame) -> bool:
    """Return whether the frame belongs to the service or to a library worth naming."""
    return is_user_file(frame.file, frame.module)


@lru_cache(maxsize=65536)
def parse_python_name(name: str) -> tuple[str, int, str] | None:
    """``file.py(12): function`` of a ``python_function`` event as file, line and function; None for anything else."""
    match = _PY_NAME.match(name)
    if match is None:
        return None
    return _LIBRARY.sub("", match["file"]), int(match["line"]), match["function"]


def builtin_name(name: str) -> str:
    """``write`` of ``<built-in method write of …>``, "" for anything else."""
    match = _BUILTIN.match(name)
    return match["name"].rsplit(".", 1)[-1] if match else ""
