"""Where in the code something happened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One Python frame, innermost frames first wherever frames come in a tuple.

    ``file`` is relative to the project or to the package that holds it, never an absolute path.
    ``callee`` is the name of the function or method that the frame is calling at this very instruction,
    read from the byte code (``item``, ``acquire``, ``write``), or "" where it is not known.
    """

    file: str
    line: int
    function: str
    module: str = ""
    callee: str = ""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the code that a finding points at.

    ``exact`` means that the line itself was seen (a stack sample or a callback inside the interval).
    It is False where only the enclosing function is known, as from a trace with ``python_function`` events;
    then ``line`` is the line at which the function starts, or 0.
    ``how`` names the witness: one of ``sample gc_callback compile_callback python_function annotation module``.
    """

    file: str
    line: int
    function: str
    module: str = ""
    exact: bool = False
    how: str = ""
    callee: str = ""
