"""A dynamic batcher: whose line is sampled while a thread waits for the device?"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from soaking.look import look, thread_table
from soaking.service import figures
from soaking.windows import Windows

PLANTED = "# the planted line"


def metric(scores):
    return scores.float().mean().item()  # the planted line


class Batcher:
    """An event loop with eight clients in one thread, a batcher that runs the model in another."""

    def __init__(self, torch, device):
        self.latencies = []
        self._torch, self._device = torch, device
        self._work: queue.Queue = queue.Queue()
        self._stop = threading.Event()
        self.threads = [
            threading.Thread(target=self._batch, name="batcher", daemon=True),
            threading.Thread(target=lambda: asyncio.run(self._serve()), name="event-loop", daemon=True),
        ]
        for thread in self.threads:
            thread.start()

    def stop(self):
        """The clients first: a client whose batcher has gone waits for good."""
        self._stop.set()
        self.threads[1].join(10)
        self._work.put(None)
        self.threads[0].join(10)
        return [thread.name for thread in self.threads if thread.is_alive()]

    def _batch(self):
        torch, device = self._torch, self._device
        weight = torch.randn(2048, 2048, device=device) * 0.02
        rows, layers = (2048, 12) if device == "cuda" else (256, 1)
        with torch.inference_mode():
            while (first := self._work.get()) is not None:
                batch = [first]
                while len(batch) < 8 and not self._work.empty():
                    batch.append(self._work.get())
                x = torch.randn(rows, 2048).to(device)
                for _ in range(layers):
                    x = torch.relu(x @ weight)
                value = metric(x)
                y = (x[:8] * 2).sum(dim=1).cpu()
                for future, loop in batch:
                    loop.call_soon_threadsafe(future.set_result, (value, y))

    async def _serve(self):
        await asyncio.gather(*(self._client() for _ in range(8)))

    async def _client(self):
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            future, begin = loop.create_future(), time.perf_counter()
            self._work.put((future, loop))
            await future
            self.latencies.append((time.perf_counter() - begin) * 1e3)


def sample(done, samples, names):
    """Every millisecond: the time, the thread, and the line of this file that it is in."""
    while not done.wait(0.001):
        now = time.time_ns()
        for ident, frame in sys._current_frames().items():
            if ident in names:
                at = frame
                while at is not None and at.f_code.co_filename != __file__:
                    at = at.f_back
                samples.append((now, names[ident], at.f_lineno if at is not None else 0))


def part_batcher(env):
    """An event loop and a batcher thread with a planted .item() in a metric: which thread, which sample, which line?"""
    batcher = Batcher(env.torch, env.device)
    time.sleep(env.seconds(3))
    windows = Windows(env.folder)
    names = {thread.ident: thread.name for thread in batcher.threads}
    table = thread_table(batcher.threads)
    taken = []
    for _ in range(env.number(8, 2)):
        samples: list = []
        done = threading.Event()
        sampler = threading.Thread(target=sample, args=(done, samples, names))
        sampler.start()
        windows.one(0.3)
        done.set()
        sampler.join()
        taken.append((windows.path, samples))
    left = batcher.stop()
    lines = Path(__file__).read_text().splitlines()
    planted = next(number for number, text in enumerate(lines, 1) if f".item()  {PLANTED}" in text)
    report, seen = Counter(), Counter()
    for path, samples in taken:
        found = look("samples", path=path, samples=samples, thread=table[0], planted=planted)
        report.update(found["report"])
        seen.update(found["lines"])
    env.keep(windows.path, "batcher.json.gz")
    return {
        **report,
        "planted_line": planted,
        "samples_by_thread_and_line": dict(seen.most_common(8)),
        "latency_ms": figures(batcher.latencies),
        "threads_that_did_not_end": left,
        "trace": look("describe", path=windows.path, threads=table),
        "engine": windows.summary(),
    }
