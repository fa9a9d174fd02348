"""The private directory of one service process: trace files, tracks, and frames too large for the socket.

It lies on a tmpfs where there is room, so that saving a trace never waits for a disk. The service and its companion
both hold a shared lock on it for as long as they live; a directory whose lock can be had alone belongs to nobody any
more. A lock works where a process id does not: across the pid namespaces of containers that share ``/dev/shm``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

SHM = Path("/dev/shm")  # noqa: S108 - the directories inside are private (0700) and their owner is checked
ROOM_BYTES = 1 << 30
"""A container's default ``/dev/shm`` has 64 MiB, and the host's data loaders need them."""
_LOCK = "lock"
PROGRESS = "progress"
"""How far a companion came with its frames (`midwatch.companion.progress`)."""
OWN = frozenset({_LOCK, PROGRESS})
"""Files that are there for as long as the directory is."""
_UNLOCKED_GRACE_S = 3600.0


def bases(configured: str) -> list[Path]:
    """Return the folders in which the directory may lie, the best first. ``configured`` is the user's choice, or ""."""
    return [Path(configured)] if configured else [SHM, Path(tempfile.gettempdir())]


def create(agent_id: str, among: list[Path]) -> tuple[Path, int]:
    """Make the directory and lock it. Return its path and the descriptor that holds the lock.

    It lies in the first of ``among`` that has room, else in the last.

    Raises:
        OSError: that folder cannot be written.
    """
    base = next((folder for folder in among if _has_room(folder)), among[-1])
    path = base / f"{_prefix()}{agent_id}"
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        # Somebody else's, or ours of a life before: a name that nobody could have guessed instead.
        path = Path(tempfile.mkdtemp(prefix=f"{_prefix()}{agent_id}-", dir=base))
    return path, hold(path)


def hold(path: Path) -> int:
    """Take a shared lock on the directory and return its descriptor; closing it gives the lock back.

    Raises:
        OSError: the directory is gone, or being removed.
    """
    handle = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def holds_files(path: Path) -> bool:
    """Return whether anything lies in the directory that a companion has still to deal with."""
    try:
        return any(item.name not in OWN for item in path.iterdir())
    except OSError:
        return False


def remove(path: Path) -> None:
    """Remove the directory with all that is in it; whatever cannot be removed stays."""
    shutil.rmtree(path, ignore_errors=True)


def sweep(among: list[Path]) -> int:
    """Remove the directories that dead processes of this user left in ``among``. Return how many."""
    swept = 0
    for base in among:
        with contextlib.suppress(OSError):
            swept += sum(_sweep_one(path) for path in base.glob(f"{_prefix()}*"))
    return swept


def _sweep_one(path: Path) -> bool:
    try:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        handle = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        # Between mkdir and lock there is a moment; only what stayed without a lock for long is left over.
        if time.time() - status.st_mtime < _UNLOCKED_GRACE_S:
            return False
        remove(path)
        return True
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(path)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def _prefix() -> str:
    return f"midwatch-{os.getuid()}-"


def _has_room(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ROOM_BYTES
    except OSError:
        return False
