"""A real HTTP service in a process of its own (ASGI, a thread pool, a small model), and the client that asks it.

Nothing is wrong with it. Latencies are the client's, so they hold all that a user would wait for. With ``--rate`` the
requests are due at even distances, whatever became of the ones before, and a latency counts from when its request was
due: the load is the same however slow the service, and a stall counts for all requests that it keeps waiting. Without,
each request follows the last one's answer, so that a slower service is asked less.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path

WARMUP_S = 3.0


def serve(port: int, device: str) -> None:
    """Serve until a signal ends it; this process alone has the agent."""
    os.environ["OMP_NUM_THREADS"] = "1"  # torch.set_num_threads is not heeded in the pool's threads
    import midwatch.auto  # isort: skip

    import torch
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    layers = [part for _ in range(12) for part in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
    model, batch = torch.nn.Sequential(*layers).to(device).eval(), torch.randn(32, 256, device=device)

    @torch.inference_mode()
    def mean() -> float:
        return float(model(batch).mean())

    async def rank(_request: Request) -> JSONResponse:
        return JSONResponse({"mean": await run_in_threadpool(mean)})

    uvicorn.run(Starlette(routes=[Route("/rank", rank)]), port=port, log_level="error", access_log=False)


def ask(port: int, latencies: Path, seconds: float, rate: float, ended: threading.Event) -> None:
    """Send the requests, and write their begins and durations once the time is up."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    seen, warm_s, until_s = array("q"), time.monotonic() + WARMUP_S, 0.0
    due_ns, apart_ns = time.perf_counter_ns(), int(1e9 / rate) if rate else 0
    while not ended.is_set() and (not until_s or time.monotonic() < until_s):
        if not until_s and time.monotonic() >= warm_s:
            until_s = time.monotonic() + seconds
            latencies.touch()
        due_ns = due_ns + apart_ns if rate else time.perf_counter_ns()
        time.sleep(max(0, due_ns - time.perf_counter_ns()) / 1e9)
        start_unix_ns = time.time_ns() - (time.perf_counter_ns() - due_ns)
        connection.request("GET", "/rank")
        connection.getresponse().read()
        if until_s:
            seen.extend((start_unix_ns, time.perf_counter_ns() - due_ns))
    with latencies.open("wb") as out:
        seen.tofile(out)


def main() -> None:
    """Start the service, ask it, and end it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--latencies", type=Path, default=Path("latencies"))
    parser.add_argument(
        "--rate", type=float, default=0.0, help="requests a second; 0: each after the last one's answer"
    )
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.port:
        serve(given.port, given.device)
        return
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: ended.set())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    service = subprocess.Popen([sys.executable, __file__, "--port", str(port), "--device", given.device])
    try:
        while service.poll() is None and not ended.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                break
            time.sleep(0.1)
        ask(port, given.latencies, given.seconds, given.rate, ended)
    finally:
        service.terminate()
        service.wait(10.0)


if __name__ == "__main__":
    main()
