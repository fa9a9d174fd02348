"""What the command line says when something cannot be done: one sentence with the remedy."""

from __future__ import annotations


class Failure(Exception):  # noqa: N818  (it reads as what it is in `raise Failure(...)`)
    """A command could not do what was asked. ``code`` is the exit code: 1 failed, 2 wrong usage."""

    def __init__(self, sentence: str, code: int = 1) -> None:
        super().__init__(sentence)
        self.code = code


class CollectorError(Failure):
    """The collector cannot be reached, or said no. The text is one sentence for people."""


class NotFoundError(CollectorError):
    """The collector holds nothing by that id, or several things by that prefix."""
