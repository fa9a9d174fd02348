"""Bytes of a trace file, in bounded pieces: plain or gzip, told apart by content and not by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from isal import isal_zlib

from midwatch.trace.errors import TraceError

CHUNK_BYTES = 1 << 20
MAX_BYTES = 4 << 30
"""Uncompressed bytes read from one file: a trace beyond it is summarised up to here, and says so."""
_PACKED_BYTES = 256 << 10
_GZIP = 31

Progress = Callable[[int, int], None]
"""Called with the bytes of the file read so far and the size of the file."""

_DAMAGE = cast("type[Exception]", isal_zlib.error)


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
                yield from self._bounded(raw)
        except OSError as exc:
            raise TraceError(f"Cannot read {self._path}: {exc.strerror or exc}.") from exc

    def _bounded(self, raw: BinaryIO) -> Iterator[bytes]:
        size = max(self._path.stat().st_size, 1)
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        seen = 0
        for piece in self._unpacked(raw) if packed else iter(lambda: raw.read(CHUNK_BYTES), b""):
            seen += len(piece)
            if self._progress is not None:
                self._progress(min(raw.tell(), size), size)
            yield piece
            if seen >= self._max_bytes:
                self.bounded = True
                return

    def _unpacked(self, raw: BinaryIO) -> Iterator[bytes]:
        """Unpack one gzip member after the other; damage ends the text, and at the start it is an error."""
        unpacker = isal_zlib.decompressobj(wbits=_GZIP)
        started = False
        waiting = b""
        while waiting or (waiting := raw.read(_PACKED_BYTES)):
            try:
                piece = unpacker.decompress(waiting, CHUNK_BYTES)
            except _DAMAGE as exc:
                if not started:
                    raise TraceError(f"{self._path.name} is a damaged gzip file: {exc}.") from exc
                self.truncated = True
                return
            if piece:
                started = True
                yield piece
            waiting = unpacker.unconsumed_tail
            if unpacker.eof:
                waiting = unpacker.unused_data or raw.read(_PACKED_BYTES)
                if not waiting.startswith(b"\x1f\x8b"):
                    return  # the end, or padding behind it
                unpacker = isal_zlib.decompressobj(wbits=_GZIP)
        if not started:
            raise TraceError(f"{self._path.name} is a damaged gzip file: it ends before its first byte.")
        self.truncated = True
