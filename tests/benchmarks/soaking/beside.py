"""Parts beside somebody else: the user's own profiler, CUDA graph captures, forks and exits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from soaking.service import HANG_S, Service
from soaking.windows import Windows

LEAVER = Path(__file__).with_name("leaver.py")


def part_user(env):
    """The user's own torch.profiler, on the same device, before, inside and right after our windows; graph captures."""
    torch = env.torch
    Service(torch, env.device).start()
    windows = Windows(env.folder, spacing_s=0.0)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if env.device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    out: Counter = Counter()
    stop = threading.Event()

    def user():
        while not stop.is_set():
            schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
            with torch.profiler.profile(activities=kinds, schedule=schedule) as profile:
                for _ in range(4):
                    with torch.inference_mode():
                        torch.ones(256, 256, device=env.device).sum().item()
                    profile.step()
            out["user_sessions"] += 1
            out["user_events"] += len(profile.profiler.kineto_results.events())
            stop.wait(0.4)

    thread = threading.Thread(target=user, name="user", daemon=True)
    thread.start()
    end = time.monotonic() + env.seconds(25)
    while time.monotonic() < end:
        out[attempt(windows)] += 1
    stop.set()
    thread.join(HANG_S)
    out["yielded"] = windows.session.yielded
    return {**out, **(captures(torch, windows, env) if env.device == "cuda" else {})}


def attempt(windows):
    """One window; "closed", or why there was none."""
    try:
        windows.one(0.06)
    except Exception as error:
        windows.engine.abort()
        time.sleep(0.05)
        return str(error).split(":")[0][:60]
    return "closed"


def captures(torch, windows, env):
    """Graph captures and replays beside light windows: outputs must stay right."""
    seen: Counter = Counter(made=0, wrong=0)
    failures: list[str] = []
    stop = threading.Event()
    expected = 1.0
    for _ in range(50):
        expected = expected * 1.01 + 0.1

    def capture():
        stream, x = torch.cuda.Stream(), torch.ones(128, device="cuda")
        while not stop.is_set():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                y = x
                for _ in range(50):
                    y = y * 1.01 + 0.1
            for _ in range(20):
                graph.replay()
            torch.cuda.current_stream().synchronize()
            seen["wrong"] += abs(float(y[0]) - expected) > 1e-3
            seen["made"] += 1

    def run():
        try:
            capture()
        except Exception as error:
            failures.append(repr(error)[:300])

    thread = threading.Thread(target=run, name="capture", daemon=True)
    thread.start()
    windows.spacing_s = 0.2
    windows.rows.clear()
    refused: Counter = Counter()
    for _ in range(env.number(15, 2)):
        refused[attempt(windows)] += 1
    stop.set()
    thread.join(HANG_S)
    return {"graphs": seen, "graph_failures": failures, "graph_windows": refused, "graph_traces": windows.summary()}


def part_exit(env):
    """Exits and forks in the middle of a light window: how does each process end?"""
    with ThreadPoolExecutor(4) as pool:
        ends = {how: pool.submit(leave, env.device, how) for how in ("recording", "stop", "deaf", "fork", "user")}
        return {how: end.result() for how, end in ends.items()}


def leave(device, how):
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(LEAVER), device, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    hang = False
    try:
        out, err = process.communicate(timeout=80)
    except subprocess.TimeoutExpired:
        hang = True
        os.killpg(process.pid, signal.SIGABRT)  # where does it hang? The forked child of it, too
        out, err = process.communicate()
    return {
        "exit": "hang" if hang else process.returncode,
        "s": round(time.monotonic() - begin, 1),
        "out": out[-200:],
        "err": err[-1500:],
    }
