"""The one error that reading a trace may raise."""

from __future__ import annotations


class TraceError(ValueError):
    """The file cannot be read as a trace; the text is one sentence for a person, with the remedy where there is one."""
