"""Which frame of a stack to point at: the innermost one of the service's own code."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import lru_cache

from midwatch.model.site import Frame

LIBRARIES = frozenset(
    {
        "accelerate", "aiohttp", "anyio", "asgiref", "click", "fastapi", "flask", "functorch", "grpc", "gunicorn",
        "h11", "httpcore", "httptools", "httpx", "midwatch", "numpy", "opentelemetry", "pydantic", "requests",
        "starlette", "torch", "torchaudio", "torchvision", "triton", "urllib3", "uvicorn", "uvloop", "werkzeug",
        "wrapt",
    }
)  # fmt: skip
"""Packages that a service calls, or that call it: their lines help nobody to find the service's own."""

LOOP_CALLS = frozenset({"_run", "_run_once", "run", "run_forever", "run_until_complete"})
"""Functions of `asyncio` that run callbacks: what stands outside of them only started the loop."""

ANONYMOUS = re.compile(r"(?:\.<locals>\.<(?:genexpr|listcomp|setcomp|dictcomp|lambda)>)+$")


def is_library(frame: Frame) -> bool:
    """Return whether ``frame`` belongs to the standard library or to one of `LIBRARIES`."""
    return _is_library(frame.module)


@lru_cache(maxsize=4096)
def _is_library(module: str) -> bool:
    package = module.partition(".")[0]
    return package != "__main__" and (package in LIBRARIES or package in sys.stdlib_module_names)


def runs_callbacks(frame: Frame) -> bool:
    """Return whether ``frame`` is an event loop's own."""
    return frame.module.startswith("asyncio.") and frame.function.rpartition(".")[2] in LOOP_CALLS


def own_frames(frames: tuple[Frame, ...]) -> tuple[tuple[int, Frame], ...]:
    """Return the frames of the service's own code with their indexes, the innermost first.

    In an event loop these are the frames of the running callback: the line that started the loop explains nothing.
    A generator or comprehension goes by its function's name.
    """
    found = []
    for depth, frame in enumerate(frames):
        if runs_callbacks(frame):
            break
        if not is_library(frame):
            found.append((depth, _plainly_named(frame)))
    return tuple(found)


def _plainly_named(frame: Frame) -> Frame:
    function = enclosing(frame.function)
    return frame if function == frame.function else replace(frame, function=function)


def own_depth(frames: tuple[Frame, ...]) -> int | None:
    """Return the index of the innermost frame of the service's own code that was at work.

    A library's innermost frame stands in where the service has none on the stack. None where an event loop runs
    nothing of the service's, and for no frames.
    """
    own = own_frames(frames)
    if own:
        return own[0][0]
    return None if not frames or any(map(runs_callbacks, frames)) else 0


def own_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """Return the frame that `own_depth` names, None where it names none."""
    own = own_frames(frames)
    depth = own_depth(frames)
    return own[0][1] if own else None if depth is None else frames[depth]


@lru_cache(maxsize=4096)
def enclosing(function: str) -> str:
    """Return the name that people know a function by: ``f`` for ``f.<locals>.<genexpr>``."""
    return ANONYMOUS.sub("", function) or function
