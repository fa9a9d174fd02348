"""Listing frames: the collector stays as the host left it, and no deadlock with it."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from midwatch.watch import frames
from midwatch.watch.frames import caller, current_frames, local_variables, look, places


def test_every_thread_is_listed(stage):
    thread = stage.start(stage.done.wait)
    stage.until(lambda: thread.ident in current_frames())
    assert threading.get_ident() not in current_frames(), "a frame in a dictionary of its own locals is a cycle"


def test_frames_are_borrowed(stage):
    thread, kept = stage.start(stage.done.wait), []
    stage.until(lambda: thread.ident in current_frames())
    assert look(lambda frames: kept.append(frames) or thread.ident in frames)
    with pytest.raises(KeyError):
        look(lambda frames: kept.append(frames) or frames[-1])
    assert kept == [{}, {}]


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_stays_as_it_was(monkeypatch, on):
    monkeypatch.setattr(frames, "_GUARDED", True)
    if not hasattr(frames.operator, "call"):  # Python 3.10, where this way is not taken
        monkeypatch.setattr(frames.operator, "call", lambda function: function(), raising=False)
    seen = []
    monkeypatch.setattr(frames, "_list_frames", lambda: seen.append(gc.isenabled()) or {1: sys._getframe()})
    before = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        assert list(current_frames()) == [1]
        assert gc.isenabled() is on
        monkeypatch.setattr(frames, "_list_frames", lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            current_frames()
        assert gc.isenabled() is on
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False]


def test_places_are_those_of_the_frame_and_its_callers():
    frame = sys._getframe()
    found = places(frame, 3)
    assert found[0][0] is frame.f_code
    assert found[1][0] is frame.f_back.f_code
    assert found[1][1:] == (frame.f_back.f_lasti, frame.f_back.f_globals)
    assert len(found) == 3
    assert len(places(frame, 10_000)) == 1 + len(places(frame.f_back, 10_000))
    assert places(None, 3) == []


def test_caller_and_variables_are_those_of_the_frame():
    frame, mark = sys._getframe(), object()
    assert caller(frame) is frame.f_back
    assert local_variables(frame)["mark"] is mark


@pytest.mark.process
def test_a_thread_that_runs_on_amid_a_walk_does_no_harm():
    """On Python 3.11 a bare walk by ``f_back`` finds functions among the frames within a second, or crashes."""
    done = _run("""
        import gc, sys, threading, time
        from midwatch.watch.frames import current_frames, local_variables
        from midwatch.watch.stacks import Stacks

        def first(n):
            return FUNCTIONS[n % len(FUNCTIONS)](n - 1) if n else None
        FUNCTIONS = []
        for size in range(2, 40):  # frames of many sizes, full of what is no frame
            names = ", ".join(f"a{number}" for number in range(size))
            exec(f"def f{size}(n):\\n    {names} = (first,) * {size}\\n"
                 f"    return FUNCTIONS[(n * 7 + {size}) % len(FUNCTIONS)](n - 1) if n else None\\n")
            FUNCTIONS.append(globals()[f"f{size}"])
        stop = threading.Event()
        def work():
            turns = 0
            while not stop.is_set():
                first(turns % 30)
                turns += 1
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        me = threading.get_ident()
        def yield_here(phase, info):
            if threading.get_ident() == me:
                time.sleep(0)
        gc.callbacks.append(yield_here)
        gc.set_threshold(5)
        sys.setswitchinterval(1e-5)
        stacks, known, end = Stacks(), {one.__code__ for one in (first, yield_here, *FUNCTIONS)}, time.monotonic() + 1.5
        while time.monotonic() < end:
            frame = current_frames()[thread.ident]
            stack = stacks.walk(frame)
            local_variables(frame)
            deep = [spot.code for spot in stack]
            at = deep.index(work.__code__) if work.__code__ in deep else 0
            assert set(deep[:at]) <= known | {threading.Event.is_set.__code__}, deep
        stop.set()
        thread.join()
        print("lives")
    """)
    assert done.stdout.strip() == "lives", done.stderr


@pytest.mark.process
def test_a_collection_that_frees_a_thread_local_does_not_stop_the_process():
    """On Python 3.11 the bare `sys._current_frames` stands still here within a second."""
    done = _run("""
        import gc, threading, time
        from midwatch.watch.frames import current_frames
        stop = threading.Event()
        def nap(): time.sleep(0.00005)
        def loop():
            while not stop.is_set(): nap()
        def look(): return current_frames()
        class Node: pass
        for _ in range(4): threading.Thread(target=loop, daemon=True).start()
        end, turns = time.monotonic() + 1.5, 0
        while time.monotonic() < end:
            turns += 1
            gc.disable()
            node = Node(); node.me = node; node.local = threading.local(); node.local.x = 1
            del node
            gc.set_threshold(gc.get_count()[0] + 1 + turns % 4, 1, 1)
            gc.enable()
            look()
            assert gc.isenabled()
        stop.set()
        print("lives")
    """)
    assert done.stdout.strip() == "lives", done.stderr


def _run(source):
    agent = str(Path(sys.modules["midwatch"].__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        env=os.environ | {"PYTHONPATH": agent},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
