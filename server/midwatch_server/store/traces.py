"""Raw traces as files beside the database.

A trace comes in chunks, which are on disk when their batch is acknowledged. A chunk that comes again is written again
over itself, so that a sender which starts over does no harm. The last chunk gives the file its name.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

from midwatch_server.errors import RecordRejectedError, StoreUnavailableError

MAX_TRACE_BYTES = 2 * 1024**3
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")


class TraceFiles:
    """The folder of raw traces. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        """Create ``folder``, for its owner alone, where it is missing."""
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.Lock()

    def path(self, capture_id: str) -> Path:
        """Return where the complete trace of a capture lies, or would. Raises `RecordRejectedError` for a bad id."""
        return self._folder / f"{checked_name(capture_id, 'capture')}.json.gz"

    def write(self, capture_id: str, offset: int, data: bytes, *, last: bool, total_bytes: int) -> bool:
        """Write one chunk to disk and return whether the trace is complete with it.

        Raises `RecordRejectedError` for a chunk that fits no trace, `StoreUnavailableError` where the disk is full.
        """
        final = self.path(capture_id)
        end = offset + len(data)
        if offset < 0 or end > MAX_TRACE_BYTES or (last and end != total_bytes):
            raise RecordRejectedError(f"a chunk of the trace {capture_id} has impossible bounds")
        try:
            with self._lock:
                if final.exists():
                    return last
                return self._append(final, offset, data, last=last)
        except OSError as error:
            raise StoreUnavailableError(f"The raw trace cannot be written: {error.strerror}.") from error

    def _append(self, final: Path, offset: int, data: bytes, *, last: bool) -> bool:
        part = final.with_name(f"{final.name}.part")
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if offset > os.fstat(descriptor).st_size:
                raise RecordRejectedError(f"a chunk of the trace {final.name} is missing before offset {offset}")
            _write_all(descriptor, data, offset)
            if last:
                os.ftruncate(descriptor, offset + len(data))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if last:
            part.rename(final)
        if last or offset == 0:
            self._sync_folder()
        return last

    def _sync_folder(self) -> None:
        """Make names durable, too."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def checked_name(given: str, what: str) -> str:
    """Return ``given`` where it can be an id, and the name of a file, or else raise `RecordRejectedError`."""
    if not _NAME.fullmatch(given):
        raise RecordRejectedError(f"a {what} needs an id of 1 to 128 letters, digits, dots and dashes")
    return given


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
