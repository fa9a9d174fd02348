"""The one thread that writes: it commits in groups, and answers only for what is committed.

While one group is on its way to the disk the next one gathers, so a disk that syncs slowly makes groups larger rather
than the queue longer. A job that fails must not take its group down with it: the group is rolled back and its jobs
are run again one by one, each in a transaction of its own. So a job may run twice and must do nothing but use the
connection.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from midwatch_server.errors import StoreUnavailableError

log = logging.getLogger("midwatch.collector")

T = TypeVar("T")
GROUP = 128
"""Most jobs in one transaction."""
_PASSING = ("full", "locked", "busy", "disk i/o", "readonly", "unable to open", "interrupted")
"""Words of SQLite's messages for what has nothing to do with the job."""


@dataclass(frozen=True, slots=True)
class _Job:
    apply: Callable[[Connection], Any]
    future: Future[Any]


class Writer:
    """Runs jobs in the order in which they were submitted. ``commits`` counts transactions."""

    def __init__(self, engine: Engine) -> None:
        """Start the thread; the connection is made in it, for it alone."""
        self.commits = 0
        self._engine = engine
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="midwatch-writer", daemon=True)
        self._thread.start()

    def submit(self, apply: Callable[[Connection], T]) -> Future[T]:
        """Queue a job. Its future holds what it returned once that is committed.

        The future raises `StoreUnavailableError` where the store could not take it, else what the job raised.
        """
        job = _Job(apply, Future())
        job.future.set_running_or_notify_cancel()  # whoever waits may go away; what is queued is done all the same
        with self._lock:
            if self._closed:
                job.future.set_exception(StoreUnavailableError("The collector is stopping; try again later."))
            else:
                self._jobs.put(job)
        return job.future

    def close(self) -> None:
        """Finish what is queued and end the thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection: Connection | None = None
        more = True
        while more:
            group, more = self._gather()
            try:
                connection = connection or self._engine.connect()
            except DBAPIError as error:
                _fail(group, _unavailable(error))
            else:
                self._commit(connection, group)
        if connection is not None:
            connection.close()

    def _gather(self) -> tuple[list[_Job], bool]:
        """Wait for a job and take what else is there. The flag is False after the last group."""
        group: list[_Job] = []
        while (job := self._jobs.get()) is not None:
            group.append(job)
            if len(group) == GROUP or self._jobs.empty():
                return group, True
        return group, False

    def _commit(self, connection: Connection, group: list[_Job]) -> None:
        try:
            with connection.begin():
                results = [job.apply(connection) for job in group]
        except Exception as error:
            if _is_passing(error):
                _fail(group, _unavailable(error))
            elif len(group) == 1:
                _fail(group, error)
            else:
                for job in group:
                    self._commit(connection, [job])
            return
        self.commits += 1
        for job, result in zip(group, results, strict=True):
            job.future.set_result(result)


def _is_passing(error: Exception) -> bool:
    text = str(error.orig).lower() if isinstance(error, DBAPIError) else ""
    return any(words in text for words in _PASSING)


def _unavailable(error: Exception) -> StoreUnavailableError:
    cause = error.orig if isinstance(error, DBAPIError) else error
    log.error("the store takes nothing: %s", cause)
    return StoreUnavailableError(f"The collector cannot store anything now: {cause}.")


def _fail(group: list[_Job], error: Exception) -> None:
    for job in group:
        job.future.set_exception(error)
