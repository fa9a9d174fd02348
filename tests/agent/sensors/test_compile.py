"""Compilations: real ones of Dynamo, and the callbacks of older versions of it."""

import sys
import threading
import types

import pytest
from midwatch.clock import SystemClock
from midwatch.sensors.compile import CompileSensor
from midwatch.watch.stacks import Stacks


def test_dynamo_is_never_imported(monkeypatch, clock):
    monkeypatch.delitem(sys.modules, "torch._dynamo.callback", raising=False)
    sensor = CompileSensor(Stacks(), clock)
    sensor.start()
    sensor.tick(1)
    assert "torch._dynamo.callback" not in sys.modules
    assert sensor.status().state == "on"
    sensor.stop()


def test_a_real_compilation(swallowed):
    import torch
    import torch._dynamo
    from torch._dynamo.callback import callback_handler

    counted = []
    clock = SystemClock()
    sensor = CompileSensor(Stacks(), clock, lambda: counted.append(1))
    sensor.start()
    sensor.tick(0)
    before = clock.perf_ns()
    try:

        @torch.compile(backend="eager")
        def double(x):
            return x * 2 + 1

        double(torch.ones(3)); called = sys._getframe().f_lineno  # fmt: skip  # noqa: E702
        events = sensor.between(before, clock.perf_ns())
        double(torch.ones(3))
        assert sensor.between(before, clock.perf_ns()) == events
    finally:
        sensor.stop()
        torch._dynamo.reset()
    assert len(events) == len(counted) == 1
    assert events[0].trigger == "dynamo"
    assert events[0].duration_ns > 0
    assert events[0].thread_id == threading.get_native_id()
    assert events[0].compile_id
    assert (events[0].frames[0].function.rpartition(".")[2], events[0].frames[0].callee) == (
        "test_a_real_compilation",
        "double",
    )
    assert events[0].frames[0].line == called
    assert not callback_handler.start_callbacks
    assert not callback_handler.end_callbacks
    assert not swallowed


class OldHandler:
    """As in torch 2.4 to 2.7: the callbacks are called with nothing."""

    def __init__(self):
        self.start_callbacks, self.end_callbacks = [], []

    def register_start_callback(self, callback):
        self.start_callbacks.append(callback)
        return callback

    def register_end_callback(self, callback):
        self.end_callbacks.append(callback)
        return callback

    def remove_start_callback(self, callback):
        self.start_callbacks.remove(callback)

    def remove_end_callback(self, callback):
        self.end_callbacks.remove(callback)


@pytest.fixture
def old(monkeypatch):
    module = types.ModuleType("torch._dynamo.callback")
    module.callback_handler = OldHandler()
    monkeypatch.setitem(sys.modules, "torch._dynamo.callback", module)
    return module.callback_handler


def test_callbacks_without_arguments(old, clock):
    sensor = CompileSensor(Stacks(), clock)
    sensor.start()
    sensor.tick(0)
    sensor.tick(1)
    assert len(old.start_callbacks) == 1
    old.start_callbacks[0]()
    start = clock.now_ns
    clock.now_ns += 5_000_000
    old.end_callbacks[0]()
    (event,) = sensor.between(start, start)
    assert (event.trigger, event.compile_id, event.duration_ns) == ("dynamo", "", 5_000_000)
    assert event.start_unix_ns == clock.to_unix(start)
    sensor.stop()
    assert (old.start_callbacks, old.end_callbacks) == ([], [])


def test_a_failing_listener_does_not_reach_dynamo(old, clock, swallowed):
    def broken():
        raise ValueError("no")

    sensor = CompileSensor(Stacks(), clock, broken)
    sensor.start()
    sensor.tick(0)
    old.start_callbacks[0]()
    old.end_callbacks[0]()
    assert [place for place, _ in swallowed] == ["sensor.compile.begin"]
    sensor.stop()


def test_a_torch_without_callbacks_is_unavailable(monkeypatch, clock):
    module = types.ModuleType("torch._dynamo.callback")
    module.callback_handler = object()
    monkeypatch.setitem(sys.modules, "torch._dynamo.callback", module)
    sensor = CompileSensor(Stacks(), clock)
    sensor.start()
    sensor.tick(0)
    assert sensor.status().state == "unavailable"
