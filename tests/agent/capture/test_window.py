"""The life of a window, on a profiler that fails where it is told to."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from midwatch.capture import capped, session, teardown, window
from midwatch.capture.base import EngineError, EngineRefused, TraceUnwritten
from midwatch.capture.capped import CappedEngine
from midwatch.capture.graphs import GraphWatch
from midwatch.capture.latch import Latch, Phase
from midwatch.capture.torchapi import Mode


class Profiler:
    """Stands for torch: notes the calls, raises on demand, and gives a result of ``start_ns``."""

    def __init__(self):
        self.calls = []
        self.raises = ""
        self.start_ns = 7

    def _call(self, name):
        self.calls.append(name)
        if name == self.raises:
            raise RuntimeError(f"{name} failed")

    def prepare(self):
        self._call("prepare")

    def enable(self):
        self._call("enable")

    def mute_ops(self):
        self._call("mute")

    def disable(self):
        self._call("disable")
        return self

    def trace_start_ns(self):
        return self.start_ns

    def save(self, path):
        self._call("save")
        Path(path).write_text("{}")


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now_s = 1000.0
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(round(seconds, 3))
        self.now_s += seconds

    def monotonic(self):
        return self.now_s

    def time_ns(self):
        return int(self.now_s * 1e9)


@pytest.fixture
def world(monkeypatch):
    clock, profiler = Clock(), Profiler()
    lock = session.ProfilerSession()
    watch = GraphWatch()
    made = SimpleNamespace(clock=clock, profiler=profiler, lock=lock, mode=Mode(device=False, ops=True, shapes=False))
    made.graphs, made.tears_down, made.runtime_calls = watch, False, []
    monkeypatch.setattr(window, "time", clock)
    monkeypatch.setattr(capped, "time", clock)
    monkeypatch.setattr(teardown, "time", clock)
    monkeypatch.setattr(teardown, "_call_runtime", lambda: made.runtime_calls.append(clock.now_s))
    monkeypatch.setattr(window, "ProfilerCalls", lambda torch, mode: profiler)
    monkeypatch.setattr(window, "mode_for", lambda torch, deep: made.mode)
    monkeypatch.setattr(window, "loaded_torch", object)
    monkeypatch.setattr(window, "tears_down", lambda: made.tears_down)
    monkeypatch.setattr(window.session, "session", lock)
    monkeypatch.setattr(window.session, "install", lambda: True)
    monkeypatch.setattr(window.session, "_python_flag", lambda: False)
    monkeypatch.setattr(window.graphs, "graphs", watch)
    monkeypatch.setattr(window.graphs, "install", lambda: True)
    return made


@pytest.fixture
def engine(world, tmp_path):
    made = CappedEngine(Latch(str(tmp_path / "state"), "shop", "2.13.0", "capped"), lambda deep: "")
    world.markers = lambda: list((tmp_path / "state").rglob("*.mark"))
    return made


def test_a_window_of_operators(world, engine, tmp_path):
    edges = []
    engine.open(edge=lambda: edges.append(list(world.profiler.calls)))
    assert edges == [["prepare"]], "the edge between requests is waited for when all is ready"
    assert len(world.markers()) == 1
    world.clock.now_s += 0.1
    result = engine.close(str(tmp_path / "trace.json"))
    assert world.profiler.calls == ["prepare", "enable", "mute", "disable", "save"]
    assert world.clock.slept == [window.GRACE_S]
    assert result.end_unix_ns - result.start_unix_ns == pytest.approx(0.1e9, rel=1e-3)
    assert (result.empty, result.trace_bytes) == (False, 2)
    assert world.markers() == []
    assert world.lock.refusal() == ""


def test_a_window_of_the_device_warms_up_and_is_never_torn_down_at_once(world, engine, tmp_path):
    world.mode, world.tears_down = Mode(device=True, ops=False, shapes=False), True
    engine.open()
    engine.close(str(tmp_path / "trace.json"))
    assert world.profiler.calls == ["prepare", "enable", "disable", "save"]
    assert world.clock.slept[:2] == [window.WARM_UP_S, window.SHORTEST_DEVICE_S]
    assert sum(world.clock.slept[2:]) == pytest.approx(teardown.SETTLE_S)


def test_a_tear_down_is_finished_even_where_the_service_rests(world, engine, tmp_path):
    world.mode, world.tears_down = Mode(device=True, ops=False, shapes=False), True
    engine.open()
    engine.close(str(tmp_path / "trace.json"))
    settle_s = dict(engine.phases)["settle"]
    assert [call_s - settle_s for call_s in world.runtime_calls] == pytest.approx([0.05, 0.075, 0.1, 0.125])


def test_without_a_tear_down_the_runtime_is_left_alone(world, engine, tmp_path):
    engine.open()
    engine.close(str(tmp_path / "trace.json"))
    assert world.runtime_calls == []


def test_an_empty_result_is_not_saved(world, engine, tmp_path):
    world.profiler.start_ns = 0
    engine.open()
    result = engine.close(str(tmp_path / "trace.json"))
    assert result.empty
    assert "save" not in world.profiler.calls


def test_windows_keep_their_distance_from_each_other_and_from_the_users_sessions(world, engine, tmp_path):
    engine.open()
    engine.close(str(tmp_path / "trace.json"))
    with pytest.raises(EngineRefused, match=r"ended 0\.0 s ago"):
        engine.open()
    world.clock.now_s += 1.0
    world.lock.user_ended_s = world.clock.now_s - 0.5
    with pytest.raises(EngineRefused, match=r"ended 0\.5 s ago"):
        engine.open()


def test_no_window_opens_where_more_threads_run_python_than_it_may_hold_up(world, engine, monkeypatch, tmp_path):
    monkeypatch.setattr(window, "MOST_THREADS", threading.active_count() - 1)
    with pytest.raises(EngineRefused, match=r"\d threads run Python here"):
        engine.open()
    monkeypatch.setattr(window, "MOST_THREADS", threading.active_count() + 1)
    engine.open()
    engine.close(str(tmp_path / "trace.json"))


@pytest.mark.parametrize("call", ["prepare", "enable"])
def test_a_window_that_cannot_be_opened_puts_the_engine_out_of_use(world, engine, call):
    world.profiler.raises = call
    with pytest.raises(EngineError, match=f"{call} failed"):
        engine.open()
    assert "disable" not in world.profiler.calls, "stopping what was not enabled segfaults in older versions"
    assert world.lock.refusal() == ""
    assert world.markers() == []
    assert engine.unavailable() == f"a window could not be opened: {call} failed"


@pytest.mark.parametrize("call", ["mute", "disable", "save"])
def test_however_a_close_fails_the_lock_is_free(world, engine, tmp_path, call):
    world.profiler.raises = call
    for attempt in range(3):
        assert engine.unavailable() == "", f"given up after three in a row, not after {attempt}"
        world.clock.now_s += 2.0
        engine.open()
        with pytest.raises(EngineError, match=f"{call} failed"):
            engine.close(str(tmp_path / "trace.json"))
        assert world.lock.refusal() == ""
        assert world.markers() == []
    assert "3 windows in a row failed" in engine.unavailable()


def test_a_disk_that_takes_no_trace_is_not_the_engines_fault(world, engine, tmp_path):
    (tmp_path / "file").touch()
    world.profiler.save = lambda _path: None  # as Kineto does: it says nothing
    for _ in range(4):
        world.clock.now_s += 2.0
        engine.open()
        with pytest.raises(TraceUnwritten, match=r"took no trace \(Not a directory\): set MIDWATCH_TRACE_DIR"):
            engine.close(str(tmp_path / "file" / "trace.json"))
        assert world.lock.refusal() == ""
    assert engine.unavailable() == ""


def test_a_profiler_that_writes_nothing_on_a_sound_disk_is_given_up(world, engine, tmp_path):
    world.profiler.save = lambda _path: None
    for _ in range(3):
        world.clock.now_s += 2.0
        engine.open()
        with pytest.raises(EngineError, match="the profiler wrote no trace"):
            engine.close(str(tmp_path / "trace.json"))
    assert "3 windows in a row failed" in engine.unavailable()
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_an_engine_warns_of_a_latch_that_cannot_be_laid(world, tmp_path):
    (tmp_path / "file").touch()
    engine = CappedEngine(Latch(str(tmp_path / "file"), "shop", "2.13.0", "capped"), lambda deep: "")
    engine.open()
    assert engine.close(str(tmp_path / "trace.json")).trace_bytes == 2
    assert "the crash latch is off" in engine.warning()


def test_a_good_window_forgives_the_bad_ones(world, engine, tmp_path):
    for raises in ("save", "save", "", "save", "save"):
        world.profiler.raises = raises
        world.clock.now_s += 2.0
        engine.open()
        try:
            engine.close(str(tmp_path / "trace.json"))
        except EngineError:
            assert raises == "save"
    assert engine.unavailable() == ""


def test_an_abort_stops_without_saving(world, engine):
    engine.abort()
    assert world.profiler.calls == []
    engine.open()
    engine.abort()
    assert world.profiler.calls == ["prepare", "enable", "mute", "disable"]
    assert world.lock.refusal() == ""


def test_the_user_comes_while_ours_opens(world, engine):
    world.profiler.enable = world.lock.wanted.set
    with pytest.raises(EngineRefused, match="opened its own profiler just now"):
        engine.open()
    assert world.profiler.calls[-1] == "disable"
    assert world.lock.refusal() == ""


def test_only_the_thread_that_opened_may_close(world, engine):
    opener = threading.Thread(target=engine.open)
    opener.start()
    opener.join()
    with pytest.raises(EngineError, match="only be ended on the thread that opened it"):
        engine.close("x")


def test_close_without_open(engine):
    with pytest.raises(EngineError, match="no window is open"):
        engine.close("x")


def test_capped_windows_keep_out_of_a_graph_capture(world, engine):
    world.mode = Mode(device=True, ops=False, shapes=False)
    world.graphs.begins()
    with pytest.raises(EngineRefused, match="a CUDA graph is being captured"):
        engine.open()
    world.graphs.ends()
    engine.open()
    engine.abort()


class TestCappedLength:
    def freeze(self, world, engine, tmp_path, frozen_s, recorded_s=0.1):
        def stop():
            world.clock.now_s += frozen_s
            return world.profiler

        world.profiler.disable = stop
        world.clock.now_s += 2.0
        engine.open()
        world.clock.now_s += recorded_s
        engine.close(str(tmp_path / "trace.json"))

    def test_the_first_window_is_short(self, engine):
        assert engine.longest_s() == 0.02

    def test_a_window_is_sized_by_the_freeze_that_the_last_ones_cost(self, world, engine, tmp_path):
        self.freeze(world, engine, tmp_path, frozen_s=0.05)
        assert engine.longest_s() == pytest.approx(0.05)
        assert engine.longest_s(deep=True) == 0.02, "deep windows cost more and are learnt apart"

    def test_the_worst_of_three_counts_and_is_forgotten(self, world, engine, tmp_path):
        for frozen_s in (1.0, 0.025, 0.025):
            self.freeze(world, engine, tmp_path, frozen_s)
        assert engine.longest_s() == 0.01
        self.freeze(world, engine, tmp_path, 0.025)
        assert engine.longest_s() == pytest.approx(0.1)

    def test_no_window_is_endless(self, world, engine, tmp_path):
        self.freeze(world, engine, tmp_path, frozen_s=0.0)
        assert engine.longest_s() == 0.5


def test_phases_follow_each_other(world, engine, tmp_path):
    phases = []
    enter = engine._latch.enter
    engine._latch.enter = lambda phase: (phases.append(phase), enter(phase))
    world.mode, world.tears_down = Mode(device=True, ops=True, shapes=True), True
    engine.open(deep=True)
    engine.close(str(tmp_path / "trace.json"))
    assert phases == [Phase.OPEN, Phase.RECORDING, Phase.STOP, Phase.SAVE, Phase.SETTLE]
    names, begins = zip(*engine.phases, strict=True)
    assert list(names) == (
        ["prepare", "warm-up", "enable", "recording", "mute", "stop", "save", "free", "settle", "end"]
    )
    assert list(begins) == sorted(begins)
    assert begins[-1] - begins[-2] == pytest.approx(teardown.SETTLE_S)
