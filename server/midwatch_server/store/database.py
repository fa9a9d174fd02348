"""The SQLite file: who may open it, and how it is opened.

SQLite before 3.51.3 can damage a WAL that several connections write or checkpoint. So one process holds the file (a
lock beside it), and in it one connection writes and checkpoints; all others are told that they may only read.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.pool import NullPool, QueuePool

from midwatch_server.errors import StartError

BUSY_TIMEOUT_MS = 5_000
READERS = 4


def database_path(db: str) -> Path:
    """Return the absolute path of the file that ``db`` names. Raises `StartError` for another kind of database."""
    kind, separator, rest = db.partition("://")
    if not separator:
        return Path(db).expanduser().absolute()
    if kind != "sqlite" or not rest.startswith("/") or rest == "/":
        raise StartError(f"This version stores in SQLite only, not in {kind}; give the path of a file to --db.")
    return Path(rest[1:]).expanduser().absolute()


class FileLock:
    """Holds a database for one process; the kernel lets go of it however the process ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock of the database ``path``. Raises `StartError` where another process holds it."""
        self._file = Path(f"{path}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartError(f"{path} cannot be opened ({error.strerror}); choose another path with --db.") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StartError(
                f"Another collector (process {holder}) uses {path}; stop it, or choose another database with --db."
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Let go. The file stays: removing it would let two processes lock two files of one name."""
        os.close(self._descriptor)


def create_private(path: Path) -> None:
    """Create the file for its owner alone where it is missing; SQLite would let everybody read it."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def writer_engine(path: Path) -> Engine:
    """Return the engine of the one connection that writes. Each transaction takes the write lock when it begins."""
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    _on_connect(engine, "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "journal_size_limit=67108864")
    _begin_with(engine, "BEGIN IMMEDIATE")
    return engine


def reader_engine(path: Path) -> Engine:
    """Return the engine of the connections that read."""
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=QueuePool,
        pool_size=READERS,
        max_overflow=0,
        connect_args={"check_same_thread": False},
    )
    _on_connect(engine, "wal_autocheckpoint=0", "query_only=ON")
    _begin_with(engine, "BEGIN")
    return engine


def _on_connect(engine: Engine, *pragmas: str) -> None:
    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, _record: Any) -> None:
        # sqlite3's own BEGIN comes too late and is deferred; we begin ourselves.
        connection.isolation_level = None
        for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", *pragmas):
            connection.execute(f"PRAGMA {pragma}").close()


def _begin_with(engine: Engine, statement: str) -> None:
    @event.listens_for(engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql(statement)
