"""Takes batches: decode and judge in a thread, commit in the writer, answer in the order sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from typing import Any

from midwatch_proto.v1 import ingest_pb2, ingest_pb2_grpc

from midwatch_server.errors import BatchRejectedError, StoreUnavailableError
from midwatch_server.intake import prepare
from midwatch_server.limits import MAX_ID
from midwatch_server.reasons import Reasons
from midwatch_server.rpc.errors import answered, log
from midwatch_server.store import Store, Stored

STREAM_BATCHES = 16
"""Batches of one stream between the wire and the answer."""
ALL_BATCHES = 256
"""Batches of all streams between the wire and the disk; beyond that, streams wait, and flow control slows senders."""

_Answer = asyncio.Future[Stored]


class IngestService(ingest_pb2_grpc.IngestServiceServicer):
    """One stream of batches from each agent."""

    def __init__(self, store: Store, threads: Executor) -> None:
        self._store = store
        self._threads = threads
        self._room = asyncio.Semaphore(ALL_BATCHES)
        self._readers: set[asyncio.Task[None]] = set()
        self._closing = False
        self._reasons = Reasons()

    async def Upload(  # type: ignore[override]  # noqa: N802  (the contract's name; it writes, rather than yields)
        self, request_iterator: AsyncIterator[ingest_pb2.UploadRequest], context: Any
    ) -> None:
        """Answer each batch once it is committed."""
        answers: asyncio.Queue[tuple[str, _Answer] | None] = asyncio.Queue()
        slots = asyncio.Semaphore(STREAM_BATCHES)
        reader = asyncio.create_task(self._read(request_iterator, answers, slots))
        self._readers.add(reader)
        reader.add_done_callback(self._read_ended)
        try:
            async with answered(context):
                while (answer := await answers.get()) is not None:
                    await context.write(await _response(*answer))
                    slots.release()
                if self._closing:
                    raise StoreUnavailableError("The collector is stopping; send again later.")
                await reader
        finally:
            reader.cancel()

    def close(self) -> None:
        """Read no further; what was read is still committed and answered."""
        self._closing = True
        for reader in list(self._readers):
            reader.cancel()

    async def _read(
        self,
        requests: AsyncIterator[ingest_pb2.UploadRequest],
        answers: asyncio.Queue[tuple[str, _Answer] | None],
        slots: asyncio.Semaphore,
    ) -> None:
        """Start on one batch after the other: chunks of a trace must reach the disk in order."""
        try:
            async for request in requests:
                await slots.acquire()
                answers.put_nowait((request.batch.batch_id, await self._start(request.batch)))
        finally:
            answers.put_nowait(None)

    async def _start(self, batch: ingest_pb2.Batch) -> _Answer:
        loop = asyncio.get_running_loop()
        answer: _Answer
        await self._room.acquire()
        try:
            intake = await loop.run_in_executor(self._threads, prepare, batch, self._store.traces)
            for sentence, count in intake.remarks:
                self._reasons.note(_sender(batch), sentence, count)
            answer = asyncio.wrap_future(self._store.put(intake))
        except Exception as error:
            if isinstance(error, BatchRejectedError):
                self._reasons.note(_sender(batch), f"a batch was refused: {error}")
            answer = loop.create_future()
            answer.set_exception(error)
        except asyncio.CancelledError:
            self._room.release()
            raise
        answer.add_done_callback(self._stored)
        return answer

    def _stored(self, answer: _Answer) -> None:
        self._room.release()
        if not answer.cancelled():
            answer.exception()  # looked at here, since a stream that broke off looks at no more answers

    def _read_ended(self, reader: asyncio.Task[None]) -> None:
        self._readers.discard(reader)
        if not reader.cancelled():
            reader.exception()


def _sender(batch: ingest_pb2.Batch) -> str:
    resource = batch.resource
    return f"agent {batch.agent_id[:MAX_ID]} ({resource.service[:MAX_ID]} on {resource.host}, process {resource.pid})"


async def _response(batch_id: str, answer: _Answer) -> ingest_pb2.UploadResponse:
    """The answer to a batch. Raises `StoreUnavailableError` where there can be none."""
    try:
        stored = await answer
    except StoreUnavailableError:
        raise
    except BatchRejectedError as error:
        return _rejected(batch_id, str(error))
    except Exception:
        log.exception("batch %r cannot be stored", batch_id)
        return _rejected(batch_id, "the collector failed on this batch; its log says how")
    return ingest_pb2.UploadResponse(
        batch_id=stored.batch_id,
        state=ingest_pb2.BATCH_STATE_ACCEPTED,
        reason=stored.reason,
        rejected_records=stored.rejected_records,
    )


def _rejected(batch_id: str, reason: str) -> ingest_pb2.UploadResponse:
    return ingest_pb2.UploadResponse(batch_id=batch_id, state=ingest_pb2.BATCH_STATE_REJECTED, reason=reason)
