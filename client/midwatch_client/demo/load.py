"""The load: an open loop, as real clients are. Requests leave when they are due, whatever became of those before."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests of one kind: ``per_second`` on average, with the path of the n-th one."""

    per_second: float
    path: Callable[[int], str]
    method: str = "POST"


STREAMS = (
    Stream(18.0, lambda n: f"/rank/{n % 911}" + ("?diverse=1" if n % 50 == 49 else "")),
    Stream(15.0, lambda n: f"/items/{n % 5000}", method="GET"),
    Stream(15.0, lambda n: f"/clicks/{n % 5000}"),
    Stream(15.0, lambda n: f"/views/{n % 5000}"),
)


class Client:
    """HTTP/1.1 over kept connections: as little of it as the load needs."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def close(self) -> None:
        """Close the connections that are idle."""
        while self._idle:
            _, writer = self._idle.pop()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def fetch(self, method: str, path: str) -> int:
        """Send one request without a body, read the whole answer and return its status."""
        connection = self._idle.pop() if self._idle else await asyncio.open_connection(*self._address)
        reader, writer = connection
        try:
            writer.write(f"{method} {path} HTTP/1.1\r\nHost: demo\r\nContent-Length: 0\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))
        except BaseException:
            writer.close()
            raise
        self._idle.append(connection)
        return int(head.split(" ")[1])


async def _one(client: Client, stream: Stream, number: int) -> None:
    # A service that is stopping, or not up yet, is no failure of the load.
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.TimeoutError):
        await asyncio.wait_for(client.fetch(stream.method, stream.path(number)), TIMEOUT_S)


async def _drive(client: Client, stream: Stream, chance: random.Random) -> None:
    loop = asyncio.get_running_loop()
    due = loop.time()
    running: set[asyncio.Task[None]] = set()
    try:
        for number in itertools.count():
            due += chance.expovariate(stream.per_second)
            await asyncio.sleep(max(0.0, due - loop.time()))
            task = asyncio.create_task(_one(client, stream, number))
            running.add(task)
            task.add_done_callback(running.discard)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def drive(host: str, port: int) -> None:
    """Drive all streams until cancelled."""
    client = Client(host, port)
    drives = (_drive(client, stream, random.Random(seed)) for seed, stream in enumerate(STREAMS))  # noqa: S311
    tasks = [asyncio.create_task(one) for one in drives]
    try:
        await asyncio.gather(*tasks)
    finally:
        await asyncio.wait(tasks)
        await client.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The demo's load.")
    parser.add_argument("--port", type=int, required=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(drive("127.0.0.1", parser.parse_args().port))
