"""What the scenario processes share: threads that run operators, and a profiler thread that obeys like ours."""

import json
import os
import queue
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path

from midwatch.capture.environment import prepare_environment

prepare_environment()

import torch  # noqa: E402
from midwatch.capture.base import EngineError, EngineRefused  # noqa: E402
from midwatch.capture.select import choose_engine  # noqa: E402
from midwatch.capture.session import session  # noqa: E402

torch.set_num_threads(1)
STATE = os.environ["SCENARIO_STATE"]


class Operators:
    """Threads that run operators until the block ends."""

    def __init__(self, threads, pause_s=0.0):
        self._stop = threading.Event()
        self._pause_s = pause_s
        self.rounds = 0
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self):
        x = torch.ones(8, 8)
        while not self._stop.is_set():
            for _ in range(5):
                x = (x @ x).relu().clamp(max=1.0)
            self.rounds += 1
            if self._pause_s:
                time.sleep(self._pause_s)


class ProfilerThread:
    """Opens windows on one thread of its own, and gives one up when the service wants the profiler."""

    def __init__(self, setting, *, obeys=True):
        self.engine, self.parts = choose_engine(
            setting, service="scenario", state_dir=STATE, allow_deep=True, spacing_s=0.0
        )
        self.phases = {}
        self._watch_phases()
        self._obeys = obeys
        self.enough = threading.Event()
        self._orders = queue.Queue()
        self._folder = tempfile.mkdtemp()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _watch_phases(self):
        enter = self.engine._latch.enter

        def watched(phase):
            enter(phase)
            self.phases.setdefault(phase.name, threading.Event()).set()

        self.engine._latch.enter = watched

    def order(self, seconds, *, deep=False, read=True):
        self.phases.clear()
        answer = Future()
        self._orders.put((seconds, deep, read, answer))
        return answer

    def window(self, seconds=0.02, *, deep=False, read=True):
        return self.order(seconds, deep=deep, read=read).result(30)

    def await_phase(self, name):
        return self.phases.setdefault(name, threading.Event()).wait(10)

    def _run(self):
        while True:
            seconds, deep, read, answer = self._orders.get()
            answer.set_result(self._one(seconds, deep, read))

    def _one(self, seconds, deep, read):
        path = str(Path(self._folder, "trace.json"))
        try:
            self.engine.open(deep=deep)
            end = time.monotonic() + seconds
            while time.monotonic() < end and not self.enough.is_set():
                if session.wanted.wait(min(0.02, seconds)) and self._obeys:
                    self.engine.abort()
                    return {"state": "yielded", "detail": ""}
            result = self.engine.close(path)
        except EngineRefused as error:
            return {"state": "refused", "detail": str(error)}
        except EngineError as error:
            return {"state": "failed", "detail": str(error)}
        if result.empty or not read:
            return {"state": "empty" if result.empty else "done"}
        ops = json.loads(Path(path).read_bytes())["traceEvents"]
        threads = {event["tid"] for event in ops if event.get("cat") == "cpu_op"}
        shapes = any("Input Dims" in event.get("args", {}) for event in ops)
        return {"state": "done", "threads": len(threads), "shapes": shapes}


def user_session(*, inside=None, rounds=3):
    """A session of the user's; returns how many operators it saw."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        answer = inside() if inside is not None else None
        for _ in range(rounds):
            torch.ones(4).add(1)
    seen = len(profile.profiler.kineto_results.events())
    return (seen, answer) if inside is not None else seen


def done(results):
    """Print the outcome as the process's last line."""
    print("RESULT " + json.dumps(results))
    sys.stdout.flush()
