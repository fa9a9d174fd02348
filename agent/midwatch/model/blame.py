"""Which frame of a stack to point at: the innermost one of the service's own code."""

from __future__ import annotations

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


def is_library(frame: Frame) -> bool:
    """Return whether ``frame`` belongs to the standard library or to one of `LIBRARIES`."""
    package = frame.module.partition(".")[0]
    return package != "__main__" and (package in LIBRARIES or package in sys.stdlib_module_names)


def own_depth(frames: tuple[Frame, ...]) -> int:
    """Return the index of the innermost frame of the service's own code, 0 where all of them are a library's."""
    return next((depth for depth, frame in enumerate(frames) if not is_library(frame)), 0)


def own_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """Return the innermost frame of the service's own code; without one the innermost at all; None for no frames."""
    return frames[own_depth(frames)] if frames else None
