"""Puts records together into batches, and batches into the spool."""

from __future__ import annotations

import os
import time
from typing import Any

from midwatch_proto.v1 import ingest_pb2

from midwatch.companion.spool import Entry, Kind, Spool
from midwatch.model.resource import Resource
from midwatch.wire import to_message

BATCH_BYTES = 1 << 20
BATCH_S = 1.0
CHUNK_BYTES = 256 * 1024


class Batcher:
    """Samples are gathered for a second; evidence goes at once. `put` may be called from any thread.

    What a kill costs meanwhile, and how that is known: `midwatch.companion.progress`.
    """

    def __init__(self, spool: Spool, resource: Resource) -> None:
        self.resource = resource
        self._spool = spool
        self._samples: list[Any] = []
        self._size = 0
        self._since_s = 0.0
        # What a companion before this one left unread may be much, and goes to the disk before anything happens to us.
        self._patience_s = 0.0
        self._last_ns = 0

    def sample(self, **record: Any) -> None:
        """Gather one record: ``sample(gpu_sample=message)``. For one thread alone, like `tick`."""
        made = ingest_pb2.Record(**record)
        size = made.ByteSize()
        if self._size + size > BATCH_BYTES:
            self.flush()
        if not self._samples:
            self._since_s = time.monotonic()
        self._samples.append(made)
        self._size += size

    @property
    def gathered(self) -> int:
        """How many samples are in memory alone."""
        return len(self._samples)

    def evidence(self, **record: Any) -> None:
        """Spool one record at once."""
        self.put(Kind.EVIDENCE, [ingest_pb2.Record(**record)])

    def chunk(self, capture_id: str, offset: int, data: bytes, total: int) -> None:
        """Spool a part of a raw trace."""
        chunk = ingest_pb2.TraceChunk(
            capture_id=capture_id, offset=offset, data=data, last=offset + len(data) >= total, total_bytes=total
        )
        self.put(Kind.TRACE, [ingest_pb2.Record(trace_chunk=chunk)])

    def tick(self) -> float | None:
        """Spool the samples once they have waited for a second. Return when that is, in seconds; None without any."""
        if not self._samples:
            return None
        left_s = self._since_s + self._patience_s - time.monotonic()
        if left_s > 0:
            return left_s
        self.flush()
        return None

    def flush(self) -> None:
        """Spool the samples now."""
        samples, self._samples, self._size = self._samples, [], 0
        if samples:
            self._patience_s = BATCH_S
            self.put(Kind.SAMPLES, samples)

    def put(self, kind: Kind, records: list[Any]) -> None:
        """Spool ``records`` as one batch."""
        with self._spool.changed:
            # Ages never tie and never run backwards, whatever the wall clock does: they are the order of sending.
            self._last_ns = max(self._last_ns + 1, time.time_ns())
            created_ns = self._last_ns
            batch = ingest_pb2.Batch(
                agent_id=self.resource.agent_id,
                batch_id=f"{created_ns:x}-{os.urandom(6).hex()}",
                created_unix_ns=created_ns,
                resource=to_message(self.resource),
                records=records,
            )
            entry = Entry(created_ns, kind, len(records), batch.batch_id)
            self._spool.add(entry, batch.SerializeToString())
