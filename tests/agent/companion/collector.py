"""A small real collector: commits batches to files before it answers, and hands out orders.

In a test's own process as `Collector`, or as a program that can be killed: ``python collector.py PORT STORE [DIE_AT]``
ends, without answering, when it has committed its batch number DIE_AT.
"""

import contextlib
import os
import queue
import sys
import threading
from concurrent import futures
from pathlib import Path

import grpc
from midwatch_proto.v1 import control_pb2, ingest_pb2
from midwatch_proto.v1.control_pb2_grpc import ControlServiceServicer, add_ControlServiceServicer_to_server
from midwatch_proto.v1.ingest_pb2_grpc import IngestServiceServicer, add_IngestServiceServicer_to_server


class Collector(IngestServiceServicer, ControlServiceServicer):
    """What it got is in ``store``; ``judge(batch, context)`` may give another answer than yes, or abort."""

    def __init__(self, store, port=0, die_at=0):
        self.store = Path(store)
        self.die_at = die_at
        self.judge = lambda batch, context: None
        self.turns_away = ""
        """Why command streams are not served, as a proxy would say it; "" where they are."""
        self.seen = []
        self.said = []
        self.orders = queue.Queue()
        self.attached = 0
        self.metadata = []
        self._contexts = []
        self.server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        add_IngestServiceServicer_to_server(self, self.server)
        add_ControlServiceServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def stop(self):
        """End all streams and the server."""
        self.orders.put(None)
        self.server.stop(0).wait()

    def drop_streams(self):
        """Break off the command streams that are held."""
        for context in self._contexts:
            context.cancel()

    def batches(self):
        """Return what was committed, oldest first."""
        found = [ingest_pb2.Batch.FromString(path.read_bytes()) for path in self.store.glob("*.pb")]
        return sorted(found, key=lambda batch: batch.created_unix_ns)

    def records(self, kind):
        """Return the committed records of one kind."""
        return [getattr(r, kind) for b in self.batches() for r in b.records if r.WhichOneof("record") == kind]

    def Upload(self, requests, context):
        self.metadata.append(dict(context.invocation_metadata()))
        for request in requests:
            batch = request.batch
            self.seen.append(batch.batch_id)
            answer = self.judge(batch, context)
            if answer is None:
                self._commit(batch)
                answer = ingest_pb2.UploadResponse(batch_id=batch.batch_id, state=ingest_pb2.BATCH_STATE_ACCEPTED)
            yield answer

    def Attach(self, messages, context):
        if self.turns_away:
            context.abort(grpc.StatusCode.UNAVAILABLE, self.turns_away)
        self._contexts.append(context)
        context.add_callback(lambda: self.orders.put(context))
        first = next(messages)
        self.said.append(first)
        self.attached += 1
        threading.Thread(target=self._listen, args=(messages,), daemon=True).start()
        yield control_pb2.CollectorMessage(ping=control_pb2.Ping(unix_ns=1))
        while (order := self.orders.get()) is not None:
            if isinstance(order, grpc.ServicerContext):
                if order is context:
                    return
                self.orders.put(order)  # the word that another stream has ended, for that one
                continue
            yield control_pb2.CollectorMessage(order=order)

    def _listen(self, messages):
        with contextlib.suppress(grpc.RpcError):
            self.said.extend(messages)

    def _commit(self, batch):
        path = self.store / f"{batch.batch_id}.pb"
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_bytes(batch.SerializeToString())
            part.rename(path)
        if self.die_at and len(self.seen) >= self.die_at:
            os._exit(9)


if __name__ == "__main__":
    Collector(sys.argv[2], int(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    threading.Event().wait()
