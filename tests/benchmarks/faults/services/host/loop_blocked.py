"""A coroutine calls something that blocks, so the event loop stands still, and with it all other requests."""

import midwatch.auto  # isort: skip

import asyncio
import time

import midwatch
from _serve import Run

run = Run("score", every=60)


def reload() -> None:
    time.sleep(0.04)  # FAULT


async def refresh() -> None:
    reload()


async def one(planted: bool) -> None:
    start_unix_ns, start_ns = time.time_ns(), time.perf_counter_ns()
    async with midwatch.request(run.route):
        run.score()
        if planted:
            background.add(asyncio.ensure_future(refresh()))
        await asyncio.sleep(0.001)
        run.score()
    run.note(start_unix_ns, time.perf_counter_ns() - start_ns, planted)


background: set["asyncio.Future[None]"] = set()


async def main() -> None:
    until = time.monotonic() + run.seconds
    pending = set()
    while time.monotonic() < until:
        pending.add(asyncio.ensure_future(one(run.plant())))
        await asyncio.sleep(1.0 / run.rate)
        pending = {task for task in pending if not task.done()}
    await asyncio.gather(*pending)
    run.save()


asyncio.run(main())
