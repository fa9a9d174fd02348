"""Midwatch: the night watch for PyTorch services."""

from midwatch._version import __version__

__all__ = ["__version__"]
