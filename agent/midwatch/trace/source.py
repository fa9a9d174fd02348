"""Bytes of a trace file, in bounded pieces: plain or gzip, told apart by content and not by name."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from isal import igzip, igzip_lib

from midwatch.trace.errors import TraceError

CHUNK_BYTES = 4 << 20
MAX_BYTES = 4 << 30
"""Uncompressed bytes read from one file: a trace beyond it is summarised up to here, and says so."""

Progress = Callable[[int, int], None]
"""Called with the bytes of the file read so far and the size of the file."""


def _unpacked(raw: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", igzip.open(raw, "rb"))  # type: ignore[no-untyped-call]


_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, cast("type[Exception]", igzip_lib.IsalError))


class Source:
    """Iterates over the uncompressed text; ``truncated`` and ``bounded`` tell afterwards how it ended."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, progress: Progress | None = None) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._progress = progress
        self.truncated = False
        self.bounded = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield pieces of at most `CHUNK_BYTES`. Raises `TraceError` where the file cannot be opened or unpacked."""
        try:
            with self._path.open("rb") as raw:
                yield from self._pieces(raw)
        except OSError as exc:
            raise TraceError(f"Cannot read {self._path}: {exc.strerror or exc}.") from exc

    def _pieces(self, raw: BinaryIO) -> Iterator[bytes]:
        size = max(self._path.stat().st_size, 1)
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = _unpacked(raw) if packed else raw
        seen = 0
        while True:
            piece = self._read(stream, started=seen > 0)
            if not piece:
                return
            seen += len(piece)
            if self._progress is not None:
                self._progress(min(raw.tell(), size), size)
            yield piece
            if seen >= self._max_bytes:
                self.bounded = True
                return

    def _read(self, stream: BinaryIO, *, started: bool) -> bytes:
        """Read one piece; damage after a good start ends the text, damage at the start is an error."""
        buffer = io.BytesIO()
        try:
            while buffer.tell() < CHUNK_BYTES:
                part = stream.read(min(CHUNK_BYTES - buffer.tell(), 1 << 20))
                if not part:
                    break
                buffer.write(part)
        except _DAMAGE as exc:
            if not started and not buffer.tell():
                raise TraceError(f"{self._path.name} is a damaged gzip file: {exc}.") from exc
            self.truncated = True
        return buffer.getvalue()
