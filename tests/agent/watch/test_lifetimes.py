"""What the host drops is gone at once, also while it is looked at: a tensor that lives on is memory of its device."""

import gc
import sys
import threading
import time
import weakref
from types import SimpleNamespace

import pytest
from midwatch.clock import SystemClock
from midwatch.requests.roots import Roots
from midwatch.requests.units import Units
from midwatch.watch.frames import current_frames
from midwatch.watch.lockprobe import LockProbe
from midwatch.watch.lockwaits import LockWaits
from midwatch.watch.sampler import SamplingRound, WindowSampler
from midwatch.watch.stacks import Stacks
from midwatch.watch.watchdog import Watchdog


class Blob:
    """What a function of the host's holds in a local variable."""


class Overdue:
    """A tracker with one request, overdue since it began."""

    shortest_ns = 0

    def __init__(self, ident=None):
        self.thread_ident = ident
        self.context = None
        self.started = time.perf_counter_ns()

    def in_flight(self):
        if self.thread_ident is None:
            return []
        times = {"start_ns": self.started, "deadline_ns": self.started + 1}
        return [SimpleNamespace(request_id=1, thread_ident=self.thread_ident, is_async=False, open_end=False, **times)]

    def unit_threads(self):
        return []


@pytest.fixture
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def window(tracker, clock, stacks):
    locks = LockWaits(stacks, LockProbe(), clock)
    return SamplingRound(tracker, stacks, locks, clock, frames=current_frames, interval_ns=1)


def watchdog(tracker, clock, stacks):
    return Watchdog(tracker, stacks, LockProbe(), clock)


LOOKERS = {
    "window": lambda tracker, clock, stacks: window(tracker, clock, stacks).sample,
    "watchdog": lambda tracker, clock, stacks: watchdog(tracker, clock, stacks).turn,
    "roots": lambda tracker, clock, _stacks: Roots(clock, Units(clock, tracker))._look_at_stacks,
}


@pytest.mark.parametrize("looker", LOOKERS)
@pytest.mark.parametrize("serving", [True, False], ids=["serving", "other"])
def test_a_look_keeps_nothing_alive(stage, no_collection, looker, serving):
    blobs, lock = [], threading.Lock()
    there = threading.Event()

    def hold():
        blob = Blob()
        blobs.append(weakref.ref(blob))
        there.set()
        with lock:  # the lock probe looks at it too
            pass

    with lock:
        thread = stage.start(hold)
        there.wait(20)
        stage.standing(thread, "hold", "__enter__")
        tracker = Overdue(thread.ident if serving else None)
        look = LOOKERS[looker](tracker, SystemClock(), Stacks())
        for _ in range(3):
            look()
        if sys.version_info >= (3, 12):
            assert blobs[0]() is not None
    thread.join(20)
    assert blobs[0]() is None


def test_a_window_beside_a_running_host_keeps_nothing_alive(no_collection):
    """Without care, hundreds of values live on within a second; one frame may be held just when it is left."""
    alive, most = 0, 0

    class Counted:
        def __init__(self):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __del__(self):
            nonlocal alive
            alive -= 1

    def step(_value):
        result, until = Counted(), time.perf_counter() + 50e-6
        while time.perf_counter() < until:
            pass
        return result

    def forward(value):
        for _ in range(40):
            value = step(value)
        return value

    ended = threading.Event()

    def serve():
        while not ended.is_set():
            forward(Counted())

    thread = threading.Thread(target=serve)
    thread.start()
    sampler = WindowSampler(Overdue(thread.ident), Stacks(), LockProbe(), SystemClock())
    dog = Watchdog(Overdue(thread.ident), Stacks(), LockProbe(), SystemClock())
    sampler.start()
    deadline, looks = time.monotonic() + 1.0, 0
    while time.monotonic() < deadline:
        dog.turn()
        looks += 1
        time.sleep(0.001)
    seen = sampler.stop()
    ended.set()
    thread.join(20)
    assert len(seen.samples) > 20
    assert looks > 20
    assert most <= 12, "three belong to the host, and a look holds one stack"
    assert alive == 0
