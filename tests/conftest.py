"""For every test: what the guard would swallow comes back, and nothing of Midwatch stays behind."""

import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import settings
from midwatch.guard import guard

settings.register_profile("same_each_time", derandomize=True, database=None)
settings.load_profile("same_each_time")

_GRACE_S = 5.0
_ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_heard():
    """A shell's background job ignores SIGINT, and so would the processes that tests start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _the_tree_stays_clean():
    """What a test writes goes to its ``tmp_path``; hidden names are the caches of the tools."""
    before = _seen_in_root()
    yield
    assert _seen_in_root() - before == set()


@pytest.fixture(autouse=True)
def swallowed():
    """Errors that the guard has swallowed, as (place, error). A test that provokes some clears the list."""
    seen = []
    guard.witness = lambda place, error: seen.append((place, error))
    yield seen
    guard.witness = None
    if seen:
        place, error = seen[0]
        raise AssertionError(f"{len(seen)} errors were swallowed, the first in {place}: {error!r}") from error


@pytest.fixture(autouse=True)
def _nothing_stays_behind(swallowed):
    children = _children()
    threads = set(threading.enumerate())
    yield
    end = time.monotonic() + _GRACE_S
    while (left := _left_behind(children, threads)) and time.monotonic() < end:
        time.sleep(0.01)
    assert left == []


def _seen_in_root():
    return {path.name for path in _ROOT.iterdir() if not path.name.startswith(".")}


def _left_behind(children, threads):
    left = [
        f"thread {thread.name}"
        for thread in threading.enumerate()
        if thread.name.startswith("midwatch") and thread not in threads
    ]
    left += [f"child {pid}: {command}" for pid, command in _children().items() if pid not in children]
    modules = sys.modules.get("torch.nn.modules.module")
    if modules is not None and (modules._global_forward_pre_hooks or modules._global_forward_hooks):
        left.append("a global hook on torch modules")
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "_C") and torch._C._autograd._profiler_enabled():
        left.append("a profiler that runs")
    left += [f"import hook {finder}" for finder in sys.meta_path if type(finder).__module__.startswith("midwatch")]
    return left


def _children():
    """Companions of this process; other children may be a session's scenarios."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            pids = (task / "children").read_text().split()
        except OSError:
            continue
        for pid in pids:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if "midwatch.companion" in command:
                found[pid] = command
    return found
