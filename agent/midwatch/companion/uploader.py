"""Sends what the spool holds, in order, and forgets a batch only when the collector says that it is committed.

At least once on the wire: a batch that was sent but not answered when the stream broke is sent again under the same id,
and the collector stores it once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from midwatch_proto.v1 import ingest_pb2

from midwatch.companion.connection import Connection
from midwatch.companion.retry import Retry
from midwatch.companion.spool import Spool
from midwatch.guard import guard
from midwatch.lifecycle import Worker

_IN_FLIGHT = 8
_ANSWER_S = 30.0
_IDLE_S = 5.0
_SUSPECT = (
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
"""One of the open batches may be at fault; they go one by one until it is known which."""
_LARGE_BYTES = 128 * 1024
"""RESOURCE_EXHAUSTED means that the message is too large, but a server that is too busy may say so as well."""


class Uploader:
    """One stream in one thread. ``report`` hears "" when an answer came, and a sentence when the stream failed."""

    def __init__(
        self,
        spool: Spool,
        connection: Connection,
        drop: Callable[[str, int], None],
        report: Callable[[str], None],
        retry: Retry | None = None,
    ) -> None:
        self.failures = 0
        """Streams that failed since the start."""
        self.refusal = ""
        """Why the collector refused something last, in its words; "" where it has refused nothing."""
        self._spool = spool
        self._connection = connection
        self._drop = drop
        self._report = report
        self._retry = retry or Retry()
        self._wake = threading.Event()
        self._careful = False
        self._in_flight = 0
        self._stream_number = 0
        """Of the stream that is open; a generator of an older one sees that it is no longer wanted."""
        self._call: Any = None
        self._progress_s = 0.0
        self._worker = Worker("midwatch-upload", self._body)

    def start(self) -> None:
        """Start the thread."""
        self._worker.start()

    def stop(self) -> None:
        """Break the stream off and end the thread. What is not answered stays in the spool."""
        self._worker.stop(wake=self._interrupt)

    def kick(self) -> None:
        """Try again now rather than later."""
        self._retry.reset()
        self._wake.set()
        with self._spool.changed:
            self._spool.changed.notify_all()

    def check(self) -> None:
        """Break the stream off where an answer is overdue. To be called every few seconds."""
        with self._spool.changed:
            overdue = self._in_flight and time.monotonic() - self._progress_s > _ANSWER_S
            call = self._call
        if overdue and call is not None:
            call.cancel()

    def _interrupt(self) -> None:
        self._wake.set()
        with self._spool.changed:
            call = self._call
            self._stream_number += 1
            self._spool.changed.notify_all()
        if call is not None:
            call.cancel()

    def _body(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._spool.changed:
                if stop.is_set():
                    return
                if not self._spool.waiting or self._connection.lost:
                    # What ends it: a batch, `kick` (the control stream finds the collector for both), the end.
                    self._spool.changed.wait(_IDLE_S)
                    continue
            self._wake.clear()
            with guard.at("companion.upload"):
                error = self._stream(stop)
                if error is not None and not stop.is_set():
                    self.failures += 1
                    self._report(self._connection.explain(error))
            if not stop.is_set():
                self._wake.wait(self._retry.delay_s())

    def _stream(self, stop: threading.Event) -> Any:
        """Hold one stream until it ends. Return the error that ended it, None where the collector closed it."""
        with self._spool.changed:
            if stop.is_set():
                return None
            self._stream_number += 1
            self._in_flight, self._progress_s = 0, time.monotonic()
            requests = self._requests(self._stream_number)
            self._call = call = self._connection.upload(requests)
        error = None
        try:
            for response in call:
                self._answered(response)
        except grpc.RpcError as broken:
            error = broken
        finally:
            with self._spool.changed:
                self._stream_number += 1
                self._call = None
                self._spool.changed.notify_all()
            call.cancel()
            self._settle(error)
        return error

    def _requests(self, number: int) -> Iterator[Any]:
        """Yield batches as room comes free; runs in a thread of gRPC's."""
        while True:
            with self._spool.changed:
                entry = None
                while number == self._stream_number and entry is None:
                    if self._in_flight < (1 if self._careful else _IN_FLIGHT):
                        entry = self._spool.take()
                    if entry is None:
                        self._spool.changed.wait(_IDLE_S)
                if entry is None:
                    return
                if not self._in_flight:
                    self._progress_s = time.monotonic()
                self._in_flight += 1
            batch = _parse(self._spool.load(entry), entry.batch_id)
            if batch is not None:
                yield ingest_pb2.UploadRequest(batch=batch)
                continue
            with self._spool.changed:
                self._spool.corrupt(entry.batch_id)
                if number == self._stream_number:
                    self._in_flight -= 1

    def _answered(self, response: Any) -> None:
        entry = self._spool.done(response.batch_id)
        if entry is None:
            return
        if response.state == ingest_pb2.BATCH_STATE_REJECTED:
            self._refused(entry.records, response.reason)
        elif response.rejected_records:
            self._refused(int(response.rejected_records), response.reason)
        with self._spool.changed:
            self._in_flight -= 1
            self._careful = False
            self._progress_s = time.monotonic()
            self._spool.changed.notify_all()
        self._retry.reset()
        self._report("")

    def _refused(self, records: int, reason: str) -> None:
        self._drop("rejected", records)
        self.refusal = reason or "it does not say why"

    def _settle(self, error: Any) -> None:
        """Queue again what was not answered; a batch that is alone at fault is given up or goes to the end."""
        code = error.code() if error is not None else None
        out = self._spool.out()
        last = ""
        if self._careful and code in _SUSPECT and len(out) == 1:
            last = out[0].batch_id
            if code == grpc.StatusCode.RESOURCE_EXHAUSTED and out[0].size > _LARGE_BYTES:
                self._spool.done(last)
                self._drop("too_large", out[0].records)
            elif code == grpc.StatusCode.INVALID_ARGUMENT:
                self._spool.done(last)
                self._refused(out[0].records, error.details() or "")
        self._careful = code in _SUSPECT
        self._spool.give_back(last=last)


def _parse(payload: bytes | None, batch_id: str) -> Any:
    """Return the batch, or None where these are not its bytes (a disk that was full, a machine that lost power)."""
    if payload is None:
        return None
    try:
        batch = ingest_pb2.Batch.FromString(payload)
    except DecodeError:
        return None
    return batch if batch.batch_id == batch_id else None
