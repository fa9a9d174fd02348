"""Text that is read line by line from a file or from standard input, compressed or not."""

from __future__ import annotations

import contextlib
import gzip
import io
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from midwatch_client.errors import Failure

STANDARD_INPUT = "-"
_GZIP, _UTF16 = b"\x1f\x8b", (b"\xff\xfe", b"\xfe\xff")
_LONGEST_LINE = 1 << 20


class TooLongError(Exception):
    """A line that no text has."""


@dataclass(frozen=True, slots=True)
class OpenText:
    """An open text. ``name`` is what to call it, ``size`` its bytes as they lie on disk, 0 where not known."""

    name: str
    size: int
    data: io.BufferedReader
    text: io.TextIOWrapper

    def lines(self) -> Iterator[str]:
        """Yield the lines, whatever ends them. Raises `TooLongError` for one of a megabyte."""
        while line := self.text.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE:
                raise TooLongError
            yield line

    def share(self) -> float | None:
        """Return how much of it was read, 0 to 1; None where that is not known."""
        return min(self.data.tell() / self.size, 1.0) if self.size else None


@contextlib.contextmanager
def opened(source: str) -> Iterator[OpenText]:
    """Open a file, or standard input for ``-``. Gzip is known by its first bytes; what is no UTF-8 becomes an escape.

    Raises:
        Failure: There is nothing that can be read.
    """
    with contextlib.ExitStack() as stack:
        data, name, size = _standard_input() if source == STANDARD_INPUT else _file(source, stack)
        try:
            head = data.peek(2)[:2]
        except OSError as error:
            raise Failure(f"cannot read {name} ({error.strerror}); give another file") from None
        if head in _UTF16:
            raise Failure(f"{name} is written in UTF-16; save it as UTF-8")
        plain = cast("io.BufferedReader", gzip.GzipFile(fileobj=data)) if head == _GZIP else data
        text = io.TextIOWrapper(plain, encoding="utf-8-sig", errors="backslashreplace")
        try:
            yield OpenText(name, size, data, text)
        finally:
            text.detach()  # else it would close what others opened


def _standard_input() -> tuple[io.BufferedReader, str, int]:
    data = sys.stdin.buffer
    whole = data if isinstance(data, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", data))
    return whole, "standard input", 0


def _file(source: str, stack: contextlib.ExitStack) -> tuple[io.BufferedReader, str, int]:
    path = Path(source)
    try:
        file = stack.enter_context(path.open("rb"))
        about = path.stat()
    except IsADirectoryError:
        raise Failure(f"{source} is a folder; give a file, or - for standard input") from None
    except FileNotFoundError:
        raise Failure(f"there is no file {source}; give a file that is there, or - for standard input") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Failure(f"cannot read {source} ({reason}); give another file") from None
    if stat.S_ISREG(about.st_mode):
        return file, path.name, about.st_size
    return file, source, 0  # the last part of /dev/fd/63 is no name
