"""What the direct engine does to a real service: lost kernels, hangs, memory, the freeze, and whose line is sampled.

    python tests/benchmarks/soak.py                      everything, about 7 minutes on one GPU
    python tests/benchmarks/soak.py --quick              small numbers, also without a GPU
    python tests/benchmarks/soak.py --parts soak,freeze2

Every part runs in a process of its own with a time limit: a crash or a hang in one is a row of the table. Results go to
standard output and, as soak.json, into $OUT.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import ctypes
import faulthandler
import gc
import gzip
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "agent"))

HANG_S = 60
PLANTED = "# the planted line"


# --------------------------------------------------------------------------------------------------- the service


SERVICES: list = []


class Service:
    """About 160 small operators and two copies a request, as many threads as asked for, in a tight loop."""

    def __init__(self, torch, device, threads=1):
        self.torch, self.device = torch, device
        self.latencies = []
        self.paused = threading.Event()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._loop, name=f"request-{i}", daemon=True) for i in range(threads)]

    def start(self):
        SERVICES.append(self)
        for thread in self._threads:
            thread.start()
        self.wait_for(50 * len(self._threads))
        return self

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(10)

    def wait_for(self, requests):
        target, end = len(self.latencies) + requests, time.monotonic() + HANG_S
        while len(self.latencies) < target:
            if time.monotonic() > end:
                raise RuntimeError("the service stands still")
            time.sleep(0.01)

    def since(self, mark):
        return [seconds * 1e3 for _, seconds in self.latencies[mark:]]

    def _loop(self):
        torch = self.torch
        weight = torch.randn(64, 64, device=self.device) * 0.1
        host = torch.randn(64, 64)
        with torch.inference_mode():
            while not self._stop.is_set():
                if self.paused.is_set():
                    time.sleep(0.01)
                    continue
                begin = time.perf_counter()
                x = host.to(self.device)
                for _ in range(40):
                    x = torch.relu(x @ weight) * 0.5 + 0.1
                x.cpu()
                self.latencies.append((begin, time.perf_counter() - begin))


def figures(latencies):
    ordered = sorted(latencies)
    if not ordered:
        return {"n": 0}
    at = lambda q: round(ordered[min(len(ordered) - 1, int(q * len(ordered)))], 3)  # noqa: E731
    return {"n": len(ordered), "p50": at(0.5), "p99": at(0.99), "max": round(ordered[-1], 3)}


def rss_mb():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def slope(values):
    """Least squares, a step of one."""
    if len(values) < 2:
        return 0.0
    mean_x, mean_y = (len(values) - 1) / 2, statistics.fmean(values)
    below = sum((x - mean_x) ** 2 for x in range(len(values)))
    return sum((x - mean_x) * (y - mean_y) for x, y in enumerate(values)) / below


# --------------------------------------------------------------------------------------------------- windows


class Windows:
    """The engine as the product uses it; the thread that makes this object is the profiler thread."""

    def __init__(self, folder, *, deep=False, spacing_s=1.0):
        from midwatch.capture.check import count_trace
        from midwatch.capture.select import choose_engine
        from midwatch.capture.session import session

        self.session, self._count = session, count_trace
        self.engine, self.parts = choose_engine(
            "auto", service="soak", state_dir=str(folder), allow_deep=True, spacing_s=spacing_s
        )
        if self.engine is None:
            raise RuntimeError(f"no engine works here: {self.parts}")
        self._folder, self.deep, self.spacing_s = folder, deep, spacing_s
        self.path, self.rows, self._made = "", [], 0

    def one(self, seconds):
        """Open, record, close; returns and remembers a row. Spacing first."""
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        try:
            return self._one(seconds)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _one(self, seconds):
        time.sleep(self.spacing_s)
        path = str(self._folder / f"window-{self._made}.json")
        self._made += 1
        begin = time.perf_counter()
        self.engine.open(deep=self.deep)
        opened = time.perf_counter()
        self.session.wanted.wait(seconds)
        result = self.engine.close(path)
        row = SimpleNamespace(
            begin=begin,
            end=time.perf_counter(),
            open_ms=(opened - begin) * 1e3,
            stop_ms=result.stop_ms,
            path=path,
            empty=result.empty,
            mb=result.trace_bytes / 2**20,
        )
        self.rows.append(row)
        self.path = path
        return row

    def _counted(self):
        """Count kernels afterwards: the companion does it in the product, here it would hold the GIL of the service."""
        for row in self.rows:
            counted = None if row.empty else self._count(row.path)
            row.kernels, row.launches = (counted.kernels, counted.launches) if counted else (0, 0)
            if row.path != self.path and not row.empty:
                Path(row.path).unlink()
        return self.rows

    def summary(self):
        rows = self._counted()
        if not rows:
            return {"windows": 0}
        return {
            "windows": len(rows),
            "empty": sum(r.empty for r in rows),
            "launches_no_kernels": sum(1 for r in rows if r.launches and not r.kernels),
            "worst_kernel_share": round(min((r.kernels / r.launches for r in rows if r.launches), default=0), 3),
            "kernels_p50": statistics.median([r.kernels for r in rows]),
            "open_ms": figures([r.open_ms for r in rows]),
            "first_open_ms": round(rows[0].open_ms, 1),
            "stop_ms": figures([r.stop_ms for r in rows]),
            "trace_mb_p50": round(statistics.median([r.mb for r in rows]), 2),
        }


# --------------------------------------------------------------------------------------------------- the parts


def part_soak(env):
    """150 light windows of 60 ms, one request thread: lost kernels, memory a window, p50 before and after."""
    service = Service(env.torch, env.device).start()
    mark = len(service.latencies)
    time.sleep(env.seconds(6))
    before = figures(service.since(mark))
    windows = Windows(env.folder, spacing_s=0.6)
    memory = []
    mark = len(service.latencies)
    for index in range(env.number(155, 6)):
        if index == 1:
            memory.append(("first attach", round(rss_mb(), 1)))
        windows.one(0.06)
        gc.collect()
        memory.append((index + 1, rss_mb()))
    levels = [mb for index, mb in memory if isinstance(index, int)]
    during = figures(service.since(mark))
    mark = len(service.latencies)
    time.sleep(env.seconds(6))
    after = figures(service.since(mark))
    env.keep(windows.path, "light.json.gz")
    out = windows.summary()
    out.update(
        p50_before=before,
        between_and_in_windows=during,
        p50_after=after,
        rss_first_mb=round(levels[0], 1),
        rss_10_mb=round(levels[min(9, len(levels) - 1)], 1),
        rss_last_mb=round(levels[-1], 1),
        rss_slope_mb_per_window=round(slope(levels[9:110] if len(levels) > 20 else levels), 3),
        trace=describe(windows.path),
    )
    return out


def freeze(env, cores):
    """20 windows of 100 and 300 ms between an equally long baseline and an A/A row."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    env.torch.set_num_threads(1)
    service = Service(env.torch, env.device).start()
    windows = Windows(env.folder)
    windows.one(0.06)  # the first attach is a row of its own
    first = windows.rows.pop()
    length = env.seconds(26)

    def quiet():
        mark = len(service.latencies)
        time.sleep(length)
        return service.since(mark)

    base = quiet()
    mark, begin = len(service.latencies), time.monotonic()
    lengths = [0.1, 0.3] * env.number(10, 1)
    for seconds in lengths:
        windows.one(seconds)
    time.sleep(max(0.0, length - (time.monotonic() - begin)))
    taken = service.latencies[mark:]
    again = quiet()
    inside = [s * 1e3 for at, s in taken if any(r.begin <= at + s and at <= r.end for r in windows.rows)]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "baseline": figures(base),
        "windows": figures([s * 1e3 for _, s in taken]),
        "a_a": figures(again),
        "inside_windows": figures(inside),
        "over_baseline_max_ms": round(max(inside) - max(base), 3),
        "a_a_over_baseline_max_ms": round(max(again) - max(base), 3),
        "first_open_ms_here": round(first.open_ms, 1),
        "engine": windows.summary(),
    }


def part_freeze2(env):
    """The freeze on 2 cores."""
    return freeze(env, 2)


def part_freeze16(env):
    """The freeze on 16 cores."""
    return freeze(env, 16)


def part_threads(env):
    """Six request threads; the last three windows are 2 s long."""
    env.torch.set_num_threads(1)
    service = Service(env.torch, env.device, threads=6).start()
    mark = len(service.latencies)
    time.sleep(env.seconds(8))
    base = figures(service.since(mark))
    windows = Windows(env.folder)
    mark = len(service.latencies)
    for index in range(env.number(20, 2)):
        windows.one(0.1 if index % 2 else 0.3)
    short = figures(service.since(mark))
    out = windows.summary()
    windows.rows.clear()
    mark = len(service.latencies)
    for _ in range(env.number(3, 1)):
        windows.one(env.seconds(2))
    out.update(baseline=base, during=short, long=windows.summary(), during_long=figures(service.since(mark)))
    return out


def part_deep(env):
    """Deep windows (operators of all threads and shapes) with the toggle-and-grace stop, six threads."""
    env.torch.set_num_threads(1)
    service = Service(env.torch, env.device, threads=6).start()
    mark = len(service.latencies)
    time.sleep(env.seconds(6))
    base = figures(service.since(mark))
    windows = Windows(env.folder, deep=True)
    mark = len(service.latencies)
    for _ in range(env.number(36, 3)):
        windows.one(0.06)
    out = windows.summary()
    out.update(baseline=base, during=figures(service.since(mark)), rss_mb=round(rss_mb(), 1))
    out["trace"] = describe(windows.path)
    return out


def part_idle(env):
    """Windows over a service that rests: are sessions without work torn down safely, do kernels come back?"""
    service = Service(env.torch, env.device).start()
    windows = Windows(env.folder)
    service.paused.set()
    time.sleep(0.2)
    for _ in range(env.number(12, 2)):
        windows.one(0.06)
    idle = windows.summary()
    windows.rows.clear()
    service.paused.clear()
    service.wait_for(20)
    windows.one(0.06)
    return {"idle": idle, "busy_again": windows.summary()}


def part_user(env):
    """The user's own torch.profiler, on the same device, before, inside and right after our windows; graph captures."""
    torch = env.torch
    Service(torch, env.device).start()
    windows = Windows(env.folder, spacing_s=0.0)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if env.device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    out = collections.Counter()
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

    thread = threading.Thread(target=user, name="user")
    thread.start()
    end = time.monotonic() + env.seconds(30)
    while time.monotonic() < end:
        out[attempt(windows)] += 1
    stop.set()
    thread.join(HANG_S)
    out["yielded"] = windows.session.yielded
    if env.device == "cuda":
        out.update(captures(torch, windows, env))
    return dict(out)


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
    wrong = made = 0
    stop = threading.Event()

    def capture():
        nonlocal wrong, made
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
            expected = 1.0
            for _ in range(50):
                expected = expected * 1.01 + 0.1
            wrong += abs(float(y[0]) - expected) > 1e-3
            made += 1

    thread = threading.Thread(target=capture, name="capture")
    thread.start()
    windows.spacing_s = 0.2
    windows.rows.clear()
    for _ in range(env.number(15, 2)):
        windows.one(0.06)
    stop.set()
    thread.join(HANG_S)
    return {"graphs": made, "graphs_wrong": wrong, "graph_windows": windows.summary()}


def part_batcher(env):
    """An event loop and a batcher thread with a planted .item() in a metric: which thread, which sample, which line?"""
    torch = env.torch
    work: queue.Queue = queue.Queue()
    stop = threading.Event()
    latencies: list[float] = []
    weight = torch.randn(2048, 2048, device=env.device) * 0.02

    def metric(scores):
        return scores.float().mean().item()  # the planted line

    def batcher():
        with torch.inference_mode():
            while not stop.is_set():
                try:
                    batch = [work.get(timeout=0.2)]
                except queue.Empty:
                    continue
                while len(batch) < 8 and not work.empty():
                    batch.append(work.get())
                x = torch.randn(2048, 2048).to(env.device) if env.device == "cuda" else torch.randn(256, 2048)
                for _ in range(12 if env.device == "cuda" else 1):
                    x = torch.relu(x @ weight)
                value = metric(x)
                y = (x[:8] * 2).sum(dim=1).cpu()
                for future, loop in batch:
                    loop.call_soon_threadsafe(future.set_result, (value, y))

    async def client(loop):
        while not stop.is_set():
            future, begin = loop.create_future(), time.perf_counter()
            work.put((future, loop))
            await future
            latencies.append((time.perf_counter() - begin) * 1e3)

    def serve():
        async def main():
            loop = asyncio.get_running_loop()
            await asyncio.gather(*(client(loop) for _ in range(8)))

        asyncio.run(main())

    threads = [threading.Thread(target=batcher, name="batcher"), threading.Thread(target=serve, name="event-loop")]
    for thread in threads:
        thread.start()
    time.sleep(env.seconds(3))
    windows = Windows(env.folder)
    report = {"waits_over_1ms": 0, "hit_by_a_sample": 0, "on_the_planted_line": 0}
    lines: collections.Counter = collections.Counter()
    planted = next(
        number
        for number, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if f".item()  {PLANTED}" in text
    )
    for _ in range(env.number(8, 2)):
        samples: list = []
        done = threading.Event()
        sampler = threading.Thread(target=sample, args=(done, samples, {t.ident: t.name for t in threads}))
        sampler.start()
        windows.one(0.3)
        done.set()
        sampler.join()
        judge_samples(windows.path, samples, threads[0], planted, (report, lines))
    stop.set()
    for thread in threads:
        thread.join(10)
    report.update(
        planted_line=planted,
        samples_by_thread_and_line={f"{name}:{line}": n for (name, line), n in lines.most_common(8)},
        latency_ms=figures(latencies),
        engine=windows.summary(),
        trace=describe(windows.path, threads),
    )
    env.keep(windows.path, "batcher.json.gz")
    return report


def sample(done, samples, names):
    while not done.wait(0.001):
        now = time.time_ns()
        for ident, frame in sys._current_frames().items():
            if ident in names:
                at = frame
                while at is not None and at.f_code.co_filename != __file__:
                    at = at.f_back
                samples.append((now, names[ident], at.f_lineno if at is not None else 0))


def judge_samples(path, samples, thread, planted, into):
    report, lines = into
    trace = json.loads(Path(path).read_text(errors="replace"), strict=False)
    base = trace.get("baseTimeNanoseconds", 0)
    for event in trace["traceEvents"]:
        if event.get("cat") != "cuda_runtime" or event.get("dur", 0) < 1000 or event["tid"] not in names_of(thread):
            continue
        start = base + event["ts"] * 1000
        inside = [s for s in samples if start <= s[0] <= start + event["dur"] * 1000 and s[1] == thread.name]
        report["waits_over_1ms"] += 1
        report["hit_by_a_sample"] += bool(inside)
        report["on_the_planted_line"] += any(s[2] == planted for s in inside)
        report[f"in {event['name']}"] = report.get(f"in {event['name']}", 0) + 1
        lines.update((s[1], s[2]) for s in inside)


def names_of(thread):
    """The numbers by which a trace may know a thread."""
    low = ctypes.c_int32(thread.ident & 0xFFFFFFFF).value
    return {thread.native_id, low, abs(low)}


def describe(path, threads=None):
    """Categories, and by which number the runtime events name threads."""
    trace = json.loads(Path(path).read_text(errors="replace"), strict=False)
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    table = [
        {
            "name": t.name,
            "native_id": t.native_id,
            "ident": t.ident,
            "as_int32": ctypes.c_int32(t.ident & 0xFFFFFFFF).value,
        }
        for t in threads or threading.enumerate()
    ]
    tids = collections.Counter(e["tid"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver", "cpu_op"))
    known = {number: t.name for t in threads or threading.enumerate() for number in names_of(t)}
    return {
        "categories": dict(collections.Counter(e.get("cat", "?") for e in events)),
        "runtime_names": dict(
            collections.Counter(e["name"] for e in events if e.get("cat") == "cuda_runtime").most_common(12)
        ),
        "sync_names": dict(collections.Counter(e["name"] for e in events if e.get("cat") == "cuda_sync")),
        "tids": {str(tid): [n, known.get(tid, "unknown")] for tid, n in tids.most_common(8)},
        "threads": table,
        "top_level": [key for key in trace if key != "traceEvents"],
    }


def part_exit(env):
    """Exits and forks in the middle of a light window: how does each process end?"""
    code = (
        "import os, sys, threading, time; sys.argv = ['soak']; sys.path.insert(0, {here!r}); import soak\n"
        "from midwatch.capture import session as s; from midwatch.capture.environment import prepare_environment\n"
        "prepare_environment(); import torch; from midwatch.capture.select import choose_engine\n"
        "x = torch.ones(64, 64, device={device!r}); (x @ x).sum().item(); s.EXIT_TIMEOUT_S = 2.0; how = {how!r}\n"
        "engine, _ = choose_engine('auto', service='exit'); opened = threading.Event()\n"
        "def run():\n"
        "    engine.open(); opened.set()\n"
        "    s.session.wanted.wait(20) if how != 'deaf' else time.sleep(20)\n"
        "    engine.abort()\n"
        "threading.Thread(target=run, daemon=True).start(); opened.wait(30)\n"
        "for _ in range(200): y = x @ x\n"
        "if how == 'fork':\n"
        "    pid = os.fork()\n"
        "    if pid == 0: sys.exit(7)\n"
        "    print('child', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        "print('leaving', flush=True)\n"
    )
    out = {}
    for how in ("recording", "deaf", "fork"):
        program = code.format(here=str(Path(__file__).parent), device=env.device, how=how)
        begin = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=False
            )
            out[how] = {"exit": done.returncode, "s": round(time.monotonic() - begin, 1), "out": done.stdout[-100:]}
            out[how]["err"] = done.stderr[-300:]
        except subprocess.TimeoutExpired:
            out[how] = {"exit": "hang"}
    return out


PARTS = {
    name: globals()[f"part_{name}"]
    for name in ("soak", "freeze2", "freeze16", "threads", "deep", "idle", "user", "batcher", "exit")
}
LIMITS_S = {"soak": 330, "freeze2": 170, "freeze16": 170}
ALONE = ("soak", "freeze2", "freeze16")


# --------------------------------------------------------------------------------------------------- running them


def run_part(name, quick, device, folder):
    """In the child."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    from midwatch.capture.environment import prepare_environment

    prepare_environment()
    if name.startswith("freeze"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: int(name[6:])]))
    import torch

    chosen = device if device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    out = os.environ.get("OUT")

    def keep(path, as_name):
        if out:
            Path(out).mkdir(parents=True, exist_ok=True)
            with gzip.open(Path(out, as_name), "wb") as file:
                file.write(Path(path).read_bytes())

    env = SimpleNamespace(
        torch=torch,
        device=chosen,
        folder=folder,
        number=lambda full, small: small if quick else full,
        seconds=lambda full: full / 10 if quick else full,
        keep=keep,
    )
    begin = time.monotonic()
    try:
        result = PARTS[name](env)
    finally:
        for service in SERVICES:  # operators on a daemon thread abort the process when the interpreter goes
            service.stop()
    result["part_s"] = round(time.monotonic() - begin, 1)
    result["torch"], result["device"] = torch.__version__, chosen
    Path(folder, "result.json").write_text(json.dumps(result))


def start(name, arguments, folder):
    folder.mkdir()
    command = [sys.executable, __file__, "--part", name, "--folder", str(folder), "--device", arguments.device]
    if arguments.quick:
        command.append("--quick")
    with Path(folder, "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def finish(name, process, folder, deadline):
    """The part's result, or how it ended."""
    try:
        code = process.wait(max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR1)  # where does it hang?
        time.sleep(2)
        process.kill()
        process.wait()
        code = "hang (killed at its time limit)"
    log = Path(folder, "log").read_text(errors="replace")
    if code == 0:
        return json.loads(Path(folder, "result.json").read_text())
    return {"failed": f"exit {code}" if isinstance(code, int) else code, "log_tail": log[-3000:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        run_part(arguments.part, arguments.quick, arguments.device, Path(arguments.folder))
        return 0
    from midwatch.capture.build import ShimBuildError, build_shim

    try:
        build_shim()
    except ShimBuildError as error:
        print(f"the shim was not built here: {error}")
    names = arguments.parts.split(",")
    if os.environ.get("OUT"):
        Path(os.environ["OUT"]).mkdir(parents=True, exist_ok=True)
    groups = [[n] for n in names if n in ALONE] + [[n for n in names if n not in ALONE]]
    results = {}
    with tempfile.TemporaryDirectory(prefix="soak-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        for group in filter(None, groups):
            started = [(name, start(name, arguments, Path(scratch, name)), time.monotonic()) for name in group]
            for name, process, at in started:
                results[name] = finish(name, process, Path(scratch, name), at + LIMITS_S.get(name, 110))
                show(name, results[name])
                if os.environ.get("OUT"):
                    Path(os.environ["OUT"], "soak.json").write_text(json.dumps(results, indent=1))
    return 1 if any("failed" in r for r in results.values()) else 0


def show(name, result):
    print(f"\n== {name}: {PARTS[name].__doc__.splitlines()[0]}")
    for key, value in result.items():
        if key == "log_tail":
            print("   " + value.replace("\n", "\n   "))
        elif isinstance(value, dict) and any(isinstance(v, (dict, list)) for v in value.values()):
            print(f"  {key}:")
            for inner, text in value.items():
                print(f"    {inner:<24} {json.dumps(text)}")
        else:
            print(f"  {key:<26} {json.dumps(value)}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
