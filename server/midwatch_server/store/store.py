"""The store as a whole: a writer, readers and raw traces over one SQLite file."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError

from midwatch_server.errors import StartError, StoreUnavailableError
from midwatch_server.store import write
from midwatch_server.store.database import FileLock, database_path, reader_engine, writer_engine
from midwatch_server.store.intake import Intake, Stored
from midwatch_server.store.rows import Row
from midwatch_server.store.traces import TraceFiles
from midwatch_server.store.upgrade import upgrade
from midwatch_server.store.writer import Writer

T = TypeVar("T")


class Store:
    """Open from its making until `close`. Its methods may be called from any thread."""

    def __init__(self, db: str, on_stored: Callable[[Stored], object] = lambda _stored: None) -> None:
        """Take the file, bring its schema up to date, and open it.

        ``on_stored`` is told of every committed batch, in the writer's thread. Raises `StartError`.
        """
        self.path: Path = database_path(db)
        self._lock = FileLock(self.path)
        try:
            self.before, self.revision = upgrade(self.path)
            self.traces = TraceFiles(Path(f"{self.path}.d") / "traces")
        except OSError as error:
            self._lock.release()
            raise StartError(
                f"{error.filename} cannot be made ({error.strerror}); choose another path with --db."
            ) from error
        except StartError:
            self._lock.release()
            raise
        self._on_stored = on_stored
        self._readers = reader_engine(self.path)
        self._writing = writer_engine(self.path)
        self.writer = Writer(self._writing)

    def put(self, intake: Intake) -> Future[Stored]:
        """Store a batch. The future holds what was committed, or raises `StoreUnavailableError`."""
        future = self.writer.submit(lambda connection: write.store_batch(connection, intake))
        future.add_done_callback(self._tell)
        return future

    def put_agent(self, row: Row) -> Future[None]:
        """Store that an agent was heard of."""
        return self.writer.submit(lambda connection: write.store_agent(connection, row))

    def ask(self, question: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Return ``question(connection, *args, **kwargs)``, one of `midwatch_server.store.read`.

        Raises what the question raises, and `StoreUnavailableError` where the file cannot be read.
        """
        try:
            with self._readers.connect() as connection:
                return question(connection, *args, **kwargs)
        except DBAPIError as error:
            raise StoreUnavailableError(f"The collector cannot read its store now: {error.orig}.") from error

    def close(self) -> None:
        """Commit what is queued, close the readers first and the writer last, and let go of the file."""
        self.writer.close()
        self._readers.dispose()
        self._writing.dispose()
        self._lock.release()

    def _tell(self, future: Future[Stored]) -> None:
        if future.exception() is None and not future.result().duplicate:
            self._on_stored(future.result())
