"""Which frame of a stack to point at: the innermost one of the service's own code."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

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

LOOP_FUNCTIONS = frozenset({"_run_once", "run_forever", "run_until_complete"})
ANONYMOUS = re.compile(r"(?:\.<locals>\.<(?:genexpr|listcomp|setcomp|dictcomp|lambda)>)+$")


def is_library(frame: Frame) -> bool:
    """Return whether ``frame`` belongs to the standard library or to one of `LIBRARIES`."""
    package = frame.module.partition(".")[0]
    return package != "__main__" and (package in LIBRARIES or package in sys.stdlib_module_names)


def is_loop(frame: Frame) -> bool:
    """Return whether ``frame`` is an event loop's own: what stands outside of it only started the loop."""
    return frame.module == "asyncio.runners" or (
        frame.module == "asyncio.base_events" and frame.function.rpartition(".")[2] in LOOP_FUNCTIONS
    )


def own_depth(frames: tuple[Frame, ...]) -> int | None:
    """Return the index of the innermost frame of the service's own code that was at work.

    A library's innermost frame stands in where the service has none on the stack. None where the event loop runs
    nothing of the service's: the line that started the loop is no answer.
    """
    for depth, frame in enumerate(frames):
        if not is_library(frame):
            return depth
        if is_loop(frame):
            return None
    return 0 if frames else None


def own_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """Return the frame that `own_depth` names, a generator or comprehension under its function's name; else None."""
    depth = own_depth(frames)
    return None if depth is None else replace(frames[depth], function=enclosing(frames[depth].function))


def enclosing(function: str) -> str:
    """Return the name that people know a function by: ``f`` for ``f.<locals>.<genexpr>``."""
    return ANONYMOUS.sub("", function) or function
