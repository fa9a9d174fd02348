"""Read a Kineto trace and summarise it."""

from midwatch.trace.errors import TraceError
from midwatch.trace.summary import summarise

__all__ = ["TraceError", "summarise"]
