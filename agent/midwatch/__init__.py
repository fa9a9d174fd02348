"""Midwatch: the night watch for PyTorch services."""

import midwatch.capture  # noqa: F401 - first: importing the package later would hide the function of that name
from midwatch._version import __version__
from midwatch.api import capture, note, request, start, status, step, stop

__all__ = ["__version__", "capture", "note", "request", "start", "status", "step", "stop"]
