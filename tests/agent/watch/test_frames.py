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
from midwatch.watch.frames import current_frames


def test_every_thread_is_listed(stage):
    thread = stage.start(stage.done.wait)
    stage.until(lambda: thread.ident in current_frames())
    mine, callers = current_frames()[threading.get_ident()], []
    while mine is not None:
        callers.append(mine.f_code)
        mine = mine.f_back
    assert sys._getframe().f_code in callers


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_stays_as_it_was(monkeypatch, on):
    monkeypatch.setattr(sys, "version_info", (3, 11, 7))
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


@pytest.mark.process
def test_a_collection_that_frees_a_thread_local_does_not_stop_the_process():
    """On Python 3.11 the bare `sys._current_frames` stands still here within a second."""
    source = textwrap.dedent(
        """
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
        """
    )
    agent = str(Path(sys.modules["midwatch"].__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=os.environ | {"PYTHONPATH": agent},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "lives"
