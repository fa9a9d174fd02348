"""Garbage collections, real ones."""

import gc
import sys
import threading

import pytest
from midwatch.clock import SystemClock
from midwatch.sensors.gc import GcSensor
from midwatch.watch.stacks import Stacks


class Node:
    pass


def heap(count):
    """Objects that a collection has to walk."""
    return [[Node(), {}] for _ in range(count)]


@pytest.fixture
def quiet_collector():
    """No collection but those that a test starts."""
    gc.collect()
    thresholds = gc.get_threshold()
    gc.set_threshold(10**9, 10**9, 10**9)
    yield thresholds
    gc.set_threshold(*thresholds)


@pytest.fixture
def sensed(quiet_collector, swallowed):
    pauses = []
    sensor = GcSensor(Stacks(), SystemClock(), pauses.append)
    sensor.start()
    yield sensor, pauses
    sensor.tick(0)
    sensor.stop()
    assert not swallowed
    assert not any(getattr(callback, "__self__", None) is sensor for callback in gc.callbacks)


def everything(sensor):
    return sensor.between(0, sys.maxsize)


def test_an_explicit_collection_with_its_line(sensed):
    sensor, pauses = sensed
    kept = heap(60_000)
    node = Node()
    node.me = node
    del node
    line = sys._getframe().f_lineno + 1
    gc.collect()
    (pause,) = everything(sensor)
    assert pause.explicit
    assert pause.generation == 2
    assert pause.collected >= 1
    assert pause.duration_ns > 200_000
    assert (pause.frames[0].line, pause.frames[0].callee) == (line, "collect")
    assert pause.frames[0].function == "test_an_explicit_collection_with_its_line"
    assert pause.thread_ident == threading.get_ident()
    assert pause.thread_id == threading.get_native_id()
    assert pauses == [pause.duration_ns]
    assert kept


def test_a_collection_of_one_generation(sensed):
    sensor, _ = sensed
    kept = heap(60_000)
    gc.collect(0)
    (pause,) = everything(sensor)
    assert (pause.generation, pause.explicit) == (0, True)
    assert pause.objects >= len(kept)


def test_an_automatic_collection_names_the_line_that_allocates(sensed):
    sensor, pauses = sensed
    kept = heap(60_000)
    gc.collect()

    def serve():
        gc.set_threshold(50_000, 1, 1)
        return heap(30_000)

    kept.append(serve())
    gc.set_threshold(10**9, 10**9, 10**9)
    automatic = [pause for pause in everything(sensor) if not pause.explicit]
    assert automatic
    functions = [frame.function.rpartition(".")[2] for frame in automatic[0].frames]
    assert functions[0] in ("<listcomp>", "heap")
    assert "serve" in functions[:3]
    assert len(pauses) >= len(automatic)


def test_short_collections_are_counted_and_not_kept(sensed):
    sensor, pauses = sensed
    gc.collect()
    before = len(everything(sensor))
    pauses.clear()
    for _ in range(50):
        gc.collect(0)
    assert len(pauses) == 50
    assert all(length > 0 for length in pauses)
    assert len(everything(sensor)) - before <= sum(length >= 200_000 for length in pauses)


def test_a_collection_on_another_thread(sensed):
    sensor, _ = sensed
    kept = heap(60_000)
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join(20)
    (pause,) = everything(sensor)
    assert pause.thread_ident == thread.ident
    assert pause.thread_id == thread.native_id
    assert pause.frames[0].function in ("Thread.run", "run")
    assert kept


def test_a_collection_inside_a_finalizer_is_no_second_pause(sensed):
    sensor, pauses = sensed
    kept = heap(60_000)

    class Final:
        def __del__(self):
            gc.collect()

    final = Final()
    final.me = final
    del final
    gc.collect()
    assert len(everything(sensor)) == len(pauses) == 1
    assert kept


def test_a_callback_that_fails_is_reported_later_and_never_raises(quiet_collector, swallowed):
    def broken(_ns):
        raise ValueError("no")

    sensor = GcSensor(Stacks(), SystemClock(), broken)
    sensor.start()
    gc.collect()
    assert not swallowed
    sensor.tick(0)
    assert [(place, str(error)) for place, error in swallowed] == [("sensor.gc", "no")]
    sensor.stop()


def test_only_pauses_in_the_time_asked_for(sensed):
    sensor, _ = sensed
    kept = heap(60_000)
    clock = SystemClock()
    before = clock.perf_ns()
    gc.collect()
    after = clock.perf_ns()
    assert len(sensor.between(before, after)) == 1
    assert sensor.between(after + 1, after + 10**9) == ()
    assert sensor.between(0, before - 1) == ()
    assert kept
