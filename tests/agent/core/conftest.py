"""The parts of an agent around fakes: a clock turned by hand, a link that keeps frames, a fake engine."""

import threading
import time
from types import SimpleNamespace

import pytest
from midwatch.capture.budget import Budget
from midwatch.capture.controller import Controller
from midwatch.config import Settings
from midwatch.detect.windows import WindowLog
from midwatch.evidence import Evidence, Senses
from midwatch.intake import Intake
from midwatch.model.plain import from_plain
from midwatch.model.resource import Resource
from midwatch.model.status import Part
from midwatch.requests.ledger import Ledger
from midwatch.requests.tracker import Tracker
from midwatch.requests.units import Units
from midwatch.testing import FakeClock, FakeEngine, FakeLink
from midwatch.watch.lockprobe import LockProbe
from midwatch.watch.sampler import WindowSamples
from midwatch.watch.stacks import Stacks
from midwatch.watch.watchdog import Watchdog


@pytest.fixture
def wait_until():
    """Polls, with a deadline: threads take the time they take."""

    def wait(condition, seconds=20.0):
        end = time.monotonic() + seconds
        while not (got := condition()):
            assert time.monotonic() < end, "it did not come about in time"
            time.sleep(0.002)
        return got

    return wait


@pytest.fixture
def clock():
    return FakeClock()


class FakeSampler:
    """Sees what a test puts into ``seen``, from its start to its stop."""

    def __init__(self):
        self.seen = WindowSamples()
        self.running = False
        self.halted = False

    def start(self):
        assert not self.running
        self.running = True

    def halt(self):
        self.halted = True

    def stop(self):
        seen = self.seen if self.running else WindowSamples()
        self.running = False
        return seen


@pytest.fixture
def agent(clock, tmp_path):
    """All parts behind the service's back, put together as the backroom does, with nothing started."""
    settings = Settings(warmup_requests=5)
    tracker = Tracker(clock)
    units, ledger, windows = Units(clock, tracker), Ledger(), WindowLog()
    link, engine = FakeLink(str(tmp_path)), FakeEngine(clock)
    stacks, probe = Stacks(), LockProbe()
    sampler = FakeSampler()
    watchdog = Watchdog(tracker, stacks, probe, clock)
    readings = SimpleNamespace(gc=(), compiles=(), gpu=(), host=())
    senses = Senses(*(lambda _s, _e, name=name: getattr(readings, name) for name in ("gc", "compiles", "gpu", "host")))
    evidence = Evidence(
        clock,
        tracker=tracker,
        ledger=ledger,
        watch=watchdog,
        stacks=sampler,
        senses=senses,
        resource=lambda: Resource("a1", "svc"),
    )
    offered = []
    intake = evidence.intake = Intake(
        settings,
        clock,
        tracker=tracker,
        units=units,
        ledger=ledger,
        windows=windows,
        witnesses=evidence,
        send=link.send,
        offer_window=lambda order: offered.append(order) or True,
    )
    engines = [engine]
    chosen = []

    def choose(setting, given_up):
        chosen.append((setting, dict(given_up)))
        engine = next((one for one in engines if one.name not in given_up), None)
        return engine, [Part("engine.direct", "on" if engine else "unavailable", "torch is not imported yet")]

    controller = Controller(
        clock,
        setting="auto",
        budget=Budget(10),
        link=link,
        tracker=tracker,
        windows=windows,
        beside=evidence,
        choose=choose,
    )

    def serve(seconds=0.005, route="rank", status="ok", workload=None):
        mark = tracker.begin(route)
        if workload is not None:
            mark.workload = workload
        clock.advance(seconds)
        tracker.end(mark, status)
        return mark

    yield SimpleNamespace(
        clock=clock,
        tracker=tracker,
        units=units,
        ledger=ledger,
        windows=windows,
        link=link,
        engine=engine,
        engines=engines,
        chosen=chosen,
        watchdog=watchdog,
        sampler=sampler,
        readings=readings,
        evidence=evidence,
        intake=intake,
        offered=offered,
        controller=controller,
        serve=serve,
        capture=lambda number=-1: _capture(link, number),
    )
    controller.stop()


def _capture(link, number):
    from midwatch.model.capture import Capture

    return from_plain(Capture, link.frames("capture")[number]["capture"])


@pytest.fixture
def turn():
    """Runs a function of the controller's on a thread of its own, as the profiler thread does, and waits for it."""

    def run(function, *args):
        thread = threading.Thread(target=function, args=args)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()

    return run


@pytest.fixture
def time_passes(agent, monkeypatch):
    """While a window is open the fake clock moves; ``inside`` is what the service does first."""
    sleep = agent.controller._sleep
    doing = []

    def pass_time(link_fd, timeout_s):
        if timeout_s is None:
            sleep(link_fd, timeout_s)
        elif doing:
            doing.pop()()
        else:
            agent.clock.advance(timeout_s)

    monkeypatch.setattr(agent.controller, "_sleep", pass_time)
    return doing


@pytest.fixture
def serve_order(agent, turn, time_passes):
    """Answers one order on a thread of its own, with the service doing ``inside`` while the window is open."""
    agent.controller.torch_imported()

    def run(order, inside=lambda: None):
        time_passes[:] = [inside]
        agent.clock.advance(2)
        turn(agent.controller._serve, order, agent.clock.perf_ns())
        return agent.capture()

    return run
