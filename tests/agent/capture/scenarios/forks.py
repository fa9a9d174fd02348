"""Children forked before, in and after a window: they refuse windows, and serve on."""

import os
import sys
import time
import traceback
from pathlib import Path

from common import ProfilerThread, done, torch
from midwatch.capture.select import choose_engine


def in_child(body):
    """Run ``body`` in a forked child that leaves through the interpreter's exit; returns its exit status."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if body() else 3
        except BaseException:
            traceback.print_exc()
        sys.exit(code)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done_pid, status = os.waitpid(pid, os.WNOHANG)
        if done_pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hang"


def refuses():
    engine, parts = choose_engine("auto", service="child")
    return engine is None and any("forked" in part.detail for part in parts)


def profiles():
    """The child's own profiler works (the module below `torch.profiler`, whose first use imports for seconds)."""
    with torch.autograd.profiler.profile() as profile:
        works()
    return len(profile.kineto_results.events()) > 0


def works():
    x = torch.ones(8, 8)
    for _ in range(300):
        x = (x @ x).clamp(max=1.0)
    return bool(x.sum() > 0)


def resident_kb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


def muted():
    """In a child of an open window nothing is recorded any more: 200,000 operators would weigh some 50 MB."""
    works()
    before = resident_kb()
    x = torch.ones(2)
    for _ in range(100_000):
        x.add_(0)
    return resident_kb() - before < 4_000


def main():
    out = {}
    profiler = ProfilerThread("direct")
    out["before_refuses"] = in_child(refuses)
    out["before_profiles"] = in_child(profiles)
    out["first"] = profiler.window()["state"]
    pending = profiler.order(100.0)
    profiler.await_phase("RECORDING")
    works()
    out["in_window_works"] = in_child(works)
    out["in_window_refuses"] = in_child(refuses)
    out["in_window_profiles"] = in_child(profiles)
    out["in_window_status"] = in_child(lambda: False)
    out["in_window_muted"] = in_child(muted)
    profiler.enough.set()
    out["window"] = pending.result(30)["state"]
    out["after_refuses"] = in_child(refuses)
    out["after_profiles"] = in_child(profiles)
    out["last"] = profiler.window()["state"]
    done(out)


main()
