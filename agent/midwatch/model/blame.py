"""Which frame of a stack to point at: the innermost one of the service's own code."""

from __future__ import annotations

import re
import sys

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


_LOOP_CALLS = frozenset({"_run", "_run_once", "run", "run_forever", "run_until_complete"})
"""Functions of `asyncio` that run callbacks: what stands outside of them only started the loop."""


def _runs_callbacks(frame: Frame) -> bool:
    return frame.module.startswith("asyncio.") and frame.function.rpartition(".")[2] in _LOOP_CALLS


def own_frames(frames: tuple[Frame, ...]) -> tuple[tuple[int, Frame], ...]:
    """Return the frames of the service's own code with their indexes, the innermost first.

    In an event loop these are the frames of the running callback: the line that started the loop explains nothing.
    """
    found = []
    for depth, frame in enumerate(frames):
        if _runs_callbacks(frame):
            break
        if not is_library(frame):
            found.append((depth, frame))
    return tuple(found)


def own_depth(frames: tuple[Frame, ...]) -> int:
    """Return the index of the innermost frame of the service's own code, 0 where all of them are a library's."""
    own = own_frames(frames)
    return own[0][0] if own else 0


def own_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """Return the innermost frame of the service's own code; without one the innermost at all; None for no frames."""
    return frames[own_depth(frames)] if frames else None
