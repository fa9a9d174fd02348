"""An event loop takes requests, a batcher thread runs the model, and its log line copies an activation to the CPU."""

import midwatch.auto  # isort: skip

import asyncio
import logging
import queue
import threading
import time

import midwatch
import torch
from _loop import Run
from _model import Head, backbone, plan, token_ids

run = Run("rank")
log = logging.getLogger("ranker")
CLIENTS = 4
jobs: "queue.SimpleQueue[asyncio.Future[list[int]]]" = queue.SimpleQueue()


def log_activations(x: torch.Tensor) -> None:
    log.debug("activations %s", x[:4, :64].cpu())  # FAULT


@torch.inference_mode()
def batcher() -> None:
    stage, head, ids = backbone(run.device, depth=40), Head(30), token_ids(run.device)
    while True:
        waiting = [jobs.get()]
        while not jobs.empty():
            waiting.append(jobs.get())
        run.take_turn()  # the few requests that wait meanwhile are counted as the other kind
        x = stage(ids.to(run.device))
        if not run.repaired:
            log_activations(x)
        plan()
        answer = head(x).cpu().tolist()
        if run.repaired:
            log_activations(x)
        for future in waiting:
            future.get_loop().call_soon_threadsafe(future.set_result, answer)


async def client() -> None:
    while not run.over():
        start_unix_ns, began = time.time_ns(), time.perf_counter_ns()
        with midwatch.request(run.route_now):
            future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
            jobs.put(future)
            await future
        run.note(start_unix_ns, time.perf_counter_ns() - began)


async def serve() -> None:
    threading.Thread(target=batcher, name="batcher", daemon=True).start()
    run.begin()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))


asyncio.run(serve())
run.save()
