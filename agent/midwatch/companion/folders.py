"""The spool's folders: one an agent, each locked by the companion that answers for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

_LOCK = "lock"
_CORRUPT = "corrupt"
_CORRUPT_KEPT = 16
_PARTIAL = ".partial"
_CLAIM_TRIES = 20
_CLAIM_PAUSE_S = 0.05


class Folder:
    """One locked folder of batch files."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle

    def files(self) -> Iterator[tuple[str, int]]:
        """Yield name and size of each file. Halves that a kill left are removed."""
        for item in list(os.scandir(self.path)):
            if item.name.endswith(_PARTIAL):
                self.delete(item.name)
            elif item.name != _LOCK and item.is_file(follow_symlinks=False):
                yield item.name, item.stat().st_size

    def write(self, name: str, payload: bytes) -> None:
        """Write a file, whole or not at all.

        Raises:
            OSError: it could not be written.
        """
        partial = self.path / f"{name}{_PARTIAL}"
        try:
            partial.write_bytes(payload)
            partial.rename(self.path / name)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(OSError):
            (self.path / name).unlink()

    def put_aside(self, name: str) -> None:
        """Move a file that cannot be read out of the way; the first few are kept for people to look at."""
        aside = self.path.parent / _CORRUPT
        try:
            aside.mkdir(mode=0o700, exist_ok=True)
            if sum(1 for _ in aside.iterdir()) < _CORRUPT_KEPT:
                (self.path / name).rename(aside / name)
        except OSError:
            pass
        self.delete(name)

    def release(self) -> None:
        """Unlock the folder, and remove it where it is empty."""
        with contextlib.suppress(OSError):
            if [item.name for item in self.path.iterdir()] == [_LOCK]:
                # The lock file goes while it is held: who opened it meanwhile sees that it is no longer the folder's.
                self.delete(_LOCK)
                self.path.rmdir()
        os.close(self._handle)


def claim_own(root: Path, agent_id: str) -> Folder:
    """Make and lock the folder of this agent under ``root``.

    Raises:
        OSError: it cannot be made, or another process holds it for more than a second.
    """
    path = root / agent_id
    for _ in range(_CLAIM_TRIES - 1):
        # A sibling that looks for orphans may take it, new and empty as it is, for one; it gives it back at once.
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            return _claim(path, make=True)
        time.sleep(_CLAIM_PAUSE_S)
    return _claim(path, make=True)


def claim_orphans(root: Path, agent_id: str) -> Iterator[Folder]:
    """Yield, locked, the folders under ``root`` that belong to this user and that no companion holds."""
    with contextlib.suppress(OSError):
        for item in list(os.scandir(root)):
            if item.name in (agent_id, _CORRUPT):
                continue
            with contextlib.suppress(OSError):
                status = item.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                    yield _claim(Path(item.path), make=False)


def _claim(path: Path, *, make: bool) -> Folder:
    if make:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between open and lock the one before may have removed the folder: then this lock is of no use.
        if not os.path.samestat(os.fstat(handle), (path / _LOCK).stat()):
            raise FileNotFoundError(path / _LOCK)
    except OSError:
        os.close(handle)
        raise
    return Folder(path, handle)
