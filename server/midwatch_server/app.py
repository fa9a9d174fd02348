"""The collector as a whole: made, started and stopped here, and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from midwatch_proto.v1 import control_pb2_grpc, ingest_pb2_grpc, query_pb2_grpc, trigger_pb2_grpc

from midwatch_server.logs import PlainFormatter
from midwatch_server.rpc.commands import Commands
from midwatch_server.rpc.control import ControlService
from midwatch_server.rpc.hub import Hub
from midwatch_server.rpc.ingest import IngestService
from midwatch_server.rpc.query import QueryService
from midwatch_server.rpc.registry import Registry
from midwatch_server.rpc.server import bind, make_server
from midwatch_server.rpc.trigger import TriggerService
from midwatch_server.settings import CollectorSettings
from midwatch_server.store import Store, Stored
from midwatch_server.store.database import READERS

STOP_GRACE_S = 3.0


class Collector:
    """One collector in the running event loop.

    Open from `start` to `stop`; `address` is where it listens. `start` raises `midwatch_server.errors.StartError`.
    """

    def __init__(self, settings: CollectorSettings) -> None:
        self.settings = settings
        self.address = ""
        self._hub = Hub()
        self._registry = Registry()
        self._commands = Commands()

    async def start(self) -> None:
        """Open the store and listen."""
        loop = asyncio.get_running_loop()
        self._server = make_server()
        self.store = Store(self.settings.db, lambda stored: loop.call_soon_threadsafe(self._publish, stored))
        try:
            self._intake_threads = ThreadPoolExecutor(2, "midwatch-intake")
            self._read_threads = ThreadPoolExecutor(READERS, "midwatch-read")
            self._ingest = IngestService(self.store, self._intake_threads)
            self._add_services()
            self.address = bind(self._server, self.settings.grpc)
            await self._server.start()
        except BaseException:
            await self._server.stop(None)
            self.store.close()
            raise

    async def stop(self) -> None:
        """End the streams that are held, let the others finish, commit what was read, and close the store."""
        stopping = asyncio.ensure_future(self._server.stop(STOP_GRACE_S))
        while not stopping.done():
            self._end_streams()
            await asyncio.wait([stopping], timeout=0.05)
        for threads in (self._intake_threads, self._read_threads):
            threads.shutdown(wait=True)
        await asyncio.get_running_loop().run_in_executor(None, self.store.close)

    def _end_streams(self) -> None:
        """Held streams would last as long as the server lets them. One may begin while the others end: do it again."""
        self._registry.close()
        self._commands.close()
        self._hub.close()
        self._ingest.close()

    def _add_services(self) -> None:
        server = self._server
        query = QueryService(self.store, self._registry, self._hub, self._read_threads)
        ingest_pb2_grpc.add_IngestServiceServicer_to_server(self._ingest, server)
        control = ControlService(self.store, self._registry, self._commands)
        control_pb2_grpc.add_ControlServiceServicer_to_server(control, server)
        query_pb2_grpc.add_QueryServiceServicer_to_server(query, server)
        trigger = TriggerService(self._registry, self._commands)
        trigger_pb2_grpc.add_TriggerServiceServicer_to_server(trigger, server)

    def _publish(self, stored: Stored) -> None:
        self._commands.stored(stored)
        self._hub.publish(stored)


def run_collector(settings: CollectorSettings) -> None:
    """Run a collector until SIGINT or SIGTERM. Raises `midwatch_server.errors.StartError` where it cannot start."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("alembic").setLevel(logging.WARNING)
    asyncio.run(_serve(settings))


async def _serve(settings: CollectorSettings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    collector = Collector(settings)
    await collector.start()
    try:
        sys.stdout.write(f"midwatch collector: listening on {collector.address}, storing in {collector.store.path}\n")
        sys.stdout.flush()
        await stopping.wait()
    finally:
        await collector.stop()
