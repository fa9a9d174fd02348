"""The collector's log, on a terminal or in a file: a line a message, whatever the names in it are."""

from __future__ import annotations

import logging
from types import TracebackType

from midwatch_server.visible import visible

FORMAT = "%(asctime)s %(levelname)s %(message)s"
_Error = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class PlainFormatter(logging.Formatter):
    """Writes messages with all that steers a terminal, or begins a line, made visible."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name that logging calls
        """Return the line of ``record``."""
        record.message = visible(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: _Error) -> str:  # noqa: N802
        """Return a traceback, line by line."""
        return "\n".join(visible(line) for line in super().formatException(ei).split("\n"))
