"""Frames as a trace names them, and whose code they are."""

from __future__ import annotations

import re
from functools import lru_cache

from midwatch.model.blame import is_library
from midwatch.model.site import Frame

_PACKAGES = re.compile(r"^.*?(?:site-packages|dist-packages)[/\\]")
_PYTHON = re.compile(r"^.*?[/\\]lib[/\\]python3(?:\.\d+)?[/\\]")
_PY_NAME = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.+)$")
_BUILTIN = re.compile(r"^<built-in (?:function|method) (?P<name>[^\s>]+)")

BLOCKING = frozenset({
    "accept", "communicate", "connect", "execute", "fdatasync", "fetchall", "fetchone", "flush", "fsync", "get",
    "getaddrinfo", "getresponse", "join", "open", "poll", "put", "read", "readinto", "readline", "readlines", "recv",
    "recv_into", "recvfrom", "result", "select", "send", "sendall", "sendfile", "sendto", "sleep", "sync", "urlopen",
    "wait", "waitpid", "write", "writelines",
})  # fmt: skip
"""Calls that neither compute nor wait for the device: files, sockets, processes, other threads, sleep."""
LOCKING = frozenset({"acquire", "__enter__"})
_SCALAR = frozenset({
    "item", "tolist", "is_nonzero", "nonzero", "argwhere", "unique", "masked_select", "equal", "__bool__", "__float__",
    "__int__", "__index__", "__format__", "float", "int", "bool", "where",
})  # fmt: skip
_COPY = frozenset({"cpu", "to", "tolist", "numpy", "copy_", "__array__", "save", "print"})
SYNCING = {
    "item": _SCALAR,
    "d2h": _COPY | _SCALAR,
    "h2d_pageable": frozenset({"to", "cuda", "copy_", "tensor", "as_tensor", "asarray"}),
    "device_sync": frozenset({"synchronize"}),
    "stream_sync": frozenset({"synchronize"}),
    "event_sync": frozenset({"synchronize"}),
    "free": frozenset({"empty_cache"}),
}
"""Calls that end in a wait of each cause."""

RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)$")
"""The rest of a compiled function after a graph break."""


@lru_cache(maxsize=65536)
def parse_python_name(name: str) -> Frame | None:
    """``file.py(12): function`` of a ``python_function`` event as a frame; None for anything else."""
    match = _PY_NAME.match(name)
    if match is None:
        return None
    file = _PYTHON.sub("", _PACKAGES.sub("", match["file"]))
    return Frame(file, int(match["line"]), match["function"], _module(file))


def _module(file: str) -> str:
    return re.sub(r"\.pyc?$", "", file.replace("\\", "/").lstrip("./")).replace("/", ".")


def is_own(frame: Frame) -> bool:
    """Return whether the frame belongs to the service, or to a library worth naming."""
    return not frame.file.startswith("<") and not is_library(frame)


def builtin_name(name: str) -> str:
    """``write`` of ``<built-in method write of …>``, "" for anything else."""
    match = _BUILTIN.match(name)
    return match["name"].rsplit(".", 1)[-1] if match else ""


@lru_cache(maxsize=65536)
def waiting_call(name: str) -> str:
    """``item`` of ``<built-in method item of Tensor …>``, ``synchronize`` of torch's own; "" for what does not wait."""
    builtin = builtin_name(name)
    if builtin:
        return builtin if any(builtin in calls for calls in SYNCING.values()) else ""
    frame = parse_python_name(name)
    return "synchronize" if frame is not None and frame.function == "synchronize" and is_library(frame) else ""
