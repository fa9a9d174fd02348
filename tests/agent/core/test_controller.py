import errno
import json
import os
import sys
import threading
from pathlib import Path

import pytest
from midwatch.capture import controller
from midwatch.capture.base import EngineError
from midwatch.capture.session import session
from midwatch.model.capture import CaptureOrder
from midwatch.model.plain import from_plain, to_plain
from midwatch.model.requests import Workload
from midwatch.model.site import Frame
from midwatch.model.status import Part
from midwatch.model.tracks import SampleRow, ThreadName, Tracks
from midwatch.testing import FakeEngine
from midwatch.watch.sampler import WindowSamples


def order(reason="demand", **rest):
    return CaptureOrder(rest.pop("capture_id", "c1"), reason, **rest)


def windows(agent):
    """The line of the status that is about windows."""
    return agent.controller.status()[-1]


def test_a_window_is_answered_with_trace_and_tracks(agent, serve_order):
    for _ in range(6):
        agent.serve(workload=Workload(("float32[4]@cpu",), 4))
    agent.intake.digest()

    def inside():
        for _ in range(7):
            agent.serve(0.05, workload=Workload(("float32[4]@cpu",), 4))

    frames = (Frame("app.py", 3, "rank"),)
    agent.sampler.seen = WindowSamples(frames, ((0,),), (SampleRow(5, 6, 0, 7),), threads=(ThreadName(6, 66, "gone"),))
    capture = serve_order(order(command_id="k1", seconds=0.3), inside)
    (frame,) = agent.link.frames("capture")
    assert (capture.state, capture.engine, capture.command_id, capture.route) == ("done", "direct", "k1", "rank")
    assert capture.end_unix_ns - capture.start_unix_ns == 350_000_000
    assert capture.workload.inputs == ("float32[4]@cpu",)
    assert capture.baseline.p50_ms == pytest.approx(5, rel=0.02)
    assert json.loads(Path(frame["trace_path"]).read_text()) == {"traceEvents": []}
    text = Path(frame["tracks_path"]).read_text()
    tracks = from_plain(Tracks, json.loads(text))
    assert json.loads(text) == to_plain(tracks)
    assert tracks.capture == capture
    assert [request.duration_ns for request in tracks.requests[-7:]] == [50_000_000] * 7
    assert tracks.resource.service == "svc"
    assert {"MainThread", "gone"} <= {thread.name for thread in tracks.threads}
    assert (tracks.frames, tracks.stacks, tracks.samples) == (frames, ((0,),), agent.sampler.seen.samples)
    assert not agent.sampler.running
    assert agent.controller.counts["done"] == 1
    assert agent.windows.overlapping(agent.clock.perf_ns() + 1, agent.clock.perf_ns() + 2) == ""
    assert Path(frame["tracks_path"]).stat().st_mode & 0o077 == 0


def test_whoever_waits_is_told_when_the_window_opens_once_its_stacks_are_sampled(agent, serve_order, monkeypatch):
    told, send = [], agent.link.send
    monkeypatch.setattr(agent.link, "send", lambda frame: told.append((frame, agent.sampler.running)) or send(frame))
    serve_order(order(command_id="k1"))
    assert told[0] == ({"t": "open", "command_id": "k1", "capture_id": "c1"}, True)
    assert [(frame["t"], sampled) for frame, sampled in told[1:]] == [("capture", False)]


def test_a_window_that_nobody_waits_for_is_told_when_it_is_done_alone(agent, serve_order):
    serve_order(order("routine"))
    assert [frame["t"] for frame in agent.link.sent] == ["capture"]


def test_a_window_is_about_the_route_that_took_most_time_not_the_one_asked_most_often(agent, serve_order):
    def inside():
        for _ in range(10):
            agent.serve(0.001, route="ping")
        agent.serve(0.05, route="rank")

    assert serve_order(order(seconds=0.1), inside).route == "rank"


def test_stacks_are_sampled_while_the_window_records_and_not_while_it_is_stopped_and_saved(agent, serve_order):
    before_s, seen = sys.getswitchinterval(), []
    close = agent.engine.close

    def watched(path):
        seen.append((agent.sampler.running, agent.sampler.halted))
        return close(path)

    agent.engine.close = watched
    serve_order(order(seconds=0.1), lambda: seen.append((agent.sampler.halted, sys.getswitchinterval() < before_s)))
    assert seen[0] == (False, True)
    assert seen[1] == (True, True)
    assert sys.getswitchinterval() == before_s


def test_a_request_that_still_runs_is_given_a_moment_and_then_told_as_running(agent, serve_order):
    marks = []
    serve_order(order(seconds=0.1), lambda: (marks.append(agent.tracker.begin("rank")), agent.clock.advance(0.2)))
    tracks = from_plain(Tracks, json.loads(Path(agent.link.frames("capture")[0]["tracks_path"]).read_text()))
    assert [request.status for request in tracks.requests] == ["running"]
    assert tracks.requests[0].duration_ns >= 600_000_000
    agent.tracker.end(marks[0])


def test_a_window_ends_after_so_many_whole_requests(agent, serve_order):
    def inside():
        for _ in range(20):
            agent.serve(0.01)

    capture = serve_order(order(requests=20), inside)
    assert capture.end_unix_ns - capture.start_unix_ns == 200_000_000


def test_a_window_for_requests_that_do_not_come_ends_all_the_same(agent, serve_order):
    capture = serve_order(order(requests=20), lambda: [agent.serve(0.01) for _ in range(19)])
    assert (capture.end_unix_ns - capture.start_unix_ns) / 1e9 == pytest.approx(10.0, abs=0.01)


def test_it_opens_and_closes_between_requests_where_it_can(agent, serve_order, monkeypatch):
    mark = agent.tracker.begin("rank")
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        agent.clock.advance(seconds)
        if len(waited) == 10:
            agent.tracker.end(mark)

    monkeypatch.setattr(agent.clock, "sleep", sleep)
    capture = serve_order(order(seconds=0.1))
    assert len(waited) == 10
    assert (capture.end_unix_ns - capture.start_unix_ns) / 1e9 == pytest.approx(0.1)


def test_it_does_not_wait_for_an_edge_for_ever(agent, serve_order):
    mark = agent.tracker.begin("rank")
    capture = serve_order(order(seconds=0.1))
    assert (capture.end_unix_ns - capture.start_unix_ns) / 1e9 == pytest.approx(0.1 + 0.05, abs=0.002)
    assert (capture.start_unix_ns - capture.ordered_unix_ns) / 1e9 == pytest.approx(0.05, abs=0.002)
    agent.tracker.end(mark)


class TestRefusals:
    def refused(self, agent, capture, text):
        assert capture.state == "refused"
        assert text in capture.detail
        assert agent.link.frames("capture")[-1]["trace_path"] == ""
        refused = agent.controller.counts["refused"]
        assert refused >= 1
        assert windows(agent).detail.endswith(f"{refused} refused, the last one since {capture.detail}")

    def test_by_the_engine(self, agent, serve_order):
        agent.engine.refuses = "a profiler session of the service is open"
        self.refused(agent, serve_order(order()), "a profiler session of the service is open")

    def test_a_session_of_the_users_is_told_while_it_lasts(self, agent):
        agent.controller._choose_engine()
        assert windows(agent) == Part("windows", "on")
        session.user_begins(7)
        part = windows(agent)
        session.user_ends(7)
        assert part == Part("windows", "unavailable", "a profiler session of the service is open")
        assert windows(agent).state == "on"

    def test_no_engine(self, agent, serve_order):
        agent.engines.clear()
        self.refused(agent, serve_order(order()), "torch is not imported yet")
        assert windows(agent).state == "unavailable"
        assert not agent.controller.offer(order("routine"))

    def test_no_deep_windows(self, agent, serve_order, monkeypatch):
        serve_order(order())
        monkeypatch.setattr(agent.engine, "unavailable", lambda *, deep=False: "too old" if deep else "")
        self.refused(agent, serve_order(order(deep=True)), "too old")

    def test_no_companion(self, agent, serve_order):
        agent.link.trace_dir = ""
        self.refused(agent, serve_order(order()), "no companion process")
        assert windows(agent).state == "unavailable"

    def test_budget(self, agent, serve_order):
        for number in range(5):
            assert serve_order(order("spike", capture_id=f"c{number}")).state == "done"
        assert not agent.controller.offer(order("spike"))
        self.refused(agent, serve_order(order("spike")), "budget of 5 windows")
        assert windows(agent).state == "on", "those that people ask for still open"
        assert "MIDWATCH_WINDOWS_PER_HOUR" in windows(agent).detail
        for number in range(5):
            assert serve_order(order("demand", capture_id=f"d{number}")).state == "done"
        assert windows(agent).state == "unavailable"
        assert windows(agent).detail.startswith("the budget of 10 windows an hour is spent")

    def test_too_many_waiting(self, agent):
        for number in range(6):
            agent.controller.order(order(capture_id=f"c{number}"))
        assert [frame["capture"]["capture_id"] for frame in agent.link.frames("capture")] == ["c4", "c5"]
        self.refused(agent, agent.capture(), "4 other windows are waiting")

    def test_a_session_of_the_users_ends_it(self, agent, serve_order):
        def inside():
            session.wanted.set()

        capture = serve_order(order(), inside)
        session.wanted.clear()
        self.refused(agent, capture, "the service began a profiler session of its own while the window was open")
        assert agent.engine.aborted == 1

    def test_the_end_of_the_service_or_of_the_agent_ends_it_and_is_told_apart(self, agent, serve_order, monkeypatch):
        with monkeypatch.context() as leaving:
            leaving.setattr(session, "_exiting", True)
            capture = serve_order(order(), session.wanted.set)
            session.wanted.clear()
        self.refused(agent, capture, "the service was ending while the window was open")
        capture = serve_order(order(capture_id="c2"), agent.controller._stopping.set)
        self.refused(agent, capture, "the agent was stopped while the window was open")


def test_an_empty_window_is_told_and_makes_the_agent_cool_down(agent, serve_order):
    agent.engine.empty = True
    capture = serve_order(order())
    assert (capture.state, capture.detail) == ("empty", "the profiler gave no records back")
    assert agent.link.frames("capture")[0]["trace_path"] == ""
    assert not agent.controller.offer(order("spike"))
    part = windows(agent)
    assert part.state == "on"
    assert part.detail == (
        "the last window went wrong: for 30 s after it none opens that nobody asks for; "
        "1 gave no records, the last one since the profiler gave no records back"
    )


def test_an_engine_that_was_given_up_is_followed_by_the_capped_one(agent, serve_order):
    agent.engines.append(FakeEngine(agent.clock))
    agent.engines[1].name = "capped"
    assert serve_order(order()).engine == "direct"
    agent.engine.broken = "3 windows in a row failed"
    assert serve_order(order()).engine == "capped"
    assert agent.chosen[-1] == ("auto", {"direct": "3 windows in a row failed"})
    agent.engines[1].broken = "a window could not be opened"
    capture = serve_order(order())
    assert capture.state == "refused", "neither is tried again: nobody knows what they left behind in the profiler"
    assert agent.chosen[-1] == (
        "auto",
        {"direct": "3 windows in a row failed", "capped": "a window could not be opened"},
    )


def test_an_engine_that_breaks_is_followed_at_once_and_not_by_the_next_order(agent, serve_order, monkeypatch):
    agent.engines.append(FakeEngine(agent.clock))
    agent.engines[1].name = "capped"

    def fail(path):
        agent.engine.broken = "3 windows in a row failed"
        raise EngineError("the window could not be saved: C++ exception")

    monkeypatch.setattr(agent.engine, "close", fail)
    assert serve_order(order()).state == "failed"
    assert agent.controller.engine == "capped"
    assert windows(agent).state == "failed"


def test_an_engine_whose_obstacle_passes_while_another_is_looked_for_is_kept(agent, serve_order, monkeypatch):
    assert serve_order(order()).state == "done"
    reasons = ["the shim could not be loaded: too many open files"]
    monkeypatch.setattr(agent.engine, "unavailable", lambda **_: reasons.pop() if reasons else "")
    assert serve_order(order()).state == "done"
    assert agent.controller.engine == "direct"
    assert [given_up for _, given_up in agent.chosen] == [{}, {}]


def test_a_trace_that_nobody_takes_is_removed(agent, serve_order, tmp_path):
    agent.link.full = True
    agent.link.sent.append({"t": "capture", "capture": to_plain(_any_capture())})
    serve_order(order())
    assert list(tmp_path.glob("*.json")) == []


def test_a_trace_that_was_saved_in_part_is_removed(agent, serve_order, monkeypatch, tmp_path):
    def fail(path):
        Path(path).write_text("half")
        raise EngineError("the window could not be saved: no space")

    monkeypatch.setattr(agent.engine, "close", fail)
    assert serve_order(order()).state == "failed"
    assert list(tmp_path.iterdir()) == []


def test_a_window_that_failed_is_told_until_one_goes_well(agent, serve_order, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(agent.engine, "close", _fails)
        for _ in range(2):
            serve_order(order())
    part = windows(agent)
    assert part.state == "failed"
    assert part.detail.endswith("2 failed, the last one since the window could not be saved: twice over")
    assert "\n" not in part.detail
    serve_order(order())
    assert windows(agent).state == "on"
    assert windows(agent) == Part("windows", "on"), "what is over is no longer told as something that is off"
    assert agent.controller.counts["failed"] == 2


def test_a_trace_that_the_companion_could_not_read_is_a_failed_window(agent, wait_until):
    agent.controller.torch_imported()
    agent.controller.start()
    agent.link.inbox.append({"t": "unread", "detail": "the trace cannot be read: it is cut off"})
    agent.controller.wake()
    wait_until(lambda: agent.controller.counts["failed"])
    assert windows(agent) == Part(
        "windows", "failed", "1 failed, the last one since the trace cannot be read: it is cut off"
    )


def test_what_is_amiss_although_windows_open_is_told(agent):
    agent.controller._choose_engine()
    agent.engine.warns = "the crash latch is off"
    assert windows(agent) == Part("windows", "on", "the crash latch is off")


def test_an_engine_that_is_off_is_told_before_somebody_asks_for_a_window(agent):
    agent.controller._choose_engine()
    agent.engine.off = "KINETO_USE_DAEMON is set"
    assert windows(agent) == Part("windows", "unavailable", "KINETO_USE_DAEMON is set")


def test_a_profiler_that_hangs_is_told(agent, serve_order, monkeypatch):
    seen = []

    def hang(path):
        seen.append(windows(agent).state)
        agent.clock.advance(61)
        seen.append(windows(agent))
        raise EngineError("at last")

    monkeypatch.setattr(agent.engine, "close", hang)
    serve_order(order())
    assert seen[0] == "on"
    assert (seen[1].state, "restart the service" in seen[1].detail) == ("failed", True)
    assert "hung" not in windows(agent).detail


def test_a_profiler_thread_that_could_not_start_is_told(agent, monkeypatch):
    def none_left(flags):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as broken:
        broken.setattr(controller.os, "pipe2", none_left)
        with pytest.raises(OSError, match="Too many"):
            agent.controller.start()
    assert windows(agent) == Part("windows", "failed", "the profiler thread does not run; the log has the error")


def test_a_thread_that_the_system_does_not_give_leaves_nothing_behind_and_may_be_had_later(
    agent, monkeypatch, wait_until
):
    def none_left(thread):
        raise RuntimeError("can't start new thread")

    before = list(session._wakers)
    pipes, pipe2 = [], os.pipe2
    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", none_left)
        broken.setattr(controller.os, "pipe2", lambda flags: pipes.extend(pipe2(flags)) or tuple(pipes))
        with pytest.raises(RuntimeError, match="new thread"):
            agent.controller.start()
    assert session._wakers == before
    assert len(pipes) == 2
    for end in pipes:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)
    assert windows(agent) == Part("windows", "failed", "the profiler thread does not run; the log has the error")
    agent.controller.torch_imported()
    agent.controller.start()
    wait_until(lambda: agent.controller.engine)


def test_a_forked_child_says_that_it_is_one(agent, monkeypatch, wait_until):
    agent.controller.torch_imported()
    agent.controller.start()
    wait_until(lambda: agent.controller.engine)
    with monkeypatch.context() as child:
        child.setattr(controller.os, "getpid", lambda: 1)
        assert windows(agent).state == "off"
        assert "forked" in windows(agent).detail
    assert windows(agent).state == "on"


def _fails(path):
    raise EngineError("the window could not be\nsaved: twice over")


def test_a_window_is_over_for_the_requests_also_where_naming_its_samples_fails(
    agent, serve_order, swallowed, monkeypatch
):
    def broken():
        raise RuntimeError("broken")

    monkeypatch.setattr(agent.sampler, "stop", broken)
    assert serve_order(order()).state == "failed"
    agent.clock.advance(60)
    assert agent.windows.overlapping(agent.clock.perf_ns() - 1, agent.clock.perf_ns()) == ""
    agent.sampler.running = False
    swallowed.clear()


def test_a_controller_that_has_stopped_is_remembered_by_nobody(agent):
    before = len(session._wakers)
    agent.controller.start()
    assert len(session._wakers) == before + 1
    agent.controller.stop()
    assert len(session._wakers) == before
    agent.controller.wake()


def test_whatever_goes_wrong_the_order_is_answered_and_the_session_closed(
    agent, serve_order, monkeypatch, swallowed, tmp_path
):
    def broken(path, tracks, clock):
        Path(path).write_text("half")
        raise RuntimeError("broken")

    monkeypatch.setattr(controller, "write_tracks", broken)
    capture = serve_order(order(command_id="k1"))
    assert (capture.state, capture.command_id) == ("failed", "k1")
    assert capture.detail == "RuntimeError: broken"
    assert agent.engine.aborted == 1
    assert list(tmp_path.iterdir()) == []
    assert not agent.sampler.running
    assert not agent.controller.offer(order("spike"))
    swallowed.clear()


def test_a_full_disk_costs_the_window_and_is_no_error_of_ours(agent, serve_order, monkeypatch, tmp_path):
    def full(path, tracks, clock):
        Path(path).write_text("half")
        Path(path.replace("tracks.json", "trace.json.tmp")).write_text("what Kineto leaves")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(controller, "write_tracks", full)
    capture = serve_order(order())
    assert (capture.state, "No space left" in capture.detail) == ("failed", True)
    assert "MIDWATCH_TRACE_DIR" in windows(agent).detail
    assert list(tmp_path.iterdir()) == []


def _any_capture():
    from midwatch.model.capture import Capture

    return Capture("x", "demand", "done")


@pytest.mark.usefixtures("time_passes")
def test_orders_of_the_collector_are_served_by_the_thread(agent, wait_until):
    agent.controller.start()
    agent.controller.torch_imported()
    wait_until(lambda: agent.controller.engine == "direct")
    agent.link.inbox.append({"t": "order", "order": to_plain(order(capture_id="theirs"))})
    agent.controller.wake()
    wait_until(lambda: agent.link.frames("capture"))
    assert agent.capture().capture_id == "theirs"
    assert agent.controller.offer(order("routine", capture_id="ours"))
    wait_until(lambda: len(agent.link.frames("capture")) == 2)


@pytest.mark.usefixtures("time_passes")
def test_the_companion_is_heard_between_windows_however_many_wait(agent, wait_until, monkeypatch):
    heard = []
    receive = agent.link.receive
    monkeypatch.setattr(agent.link, "receive", lambda: heard.append(len(agent.link.frames("capture"))) or receive())
    for number in range(4):
        agent.controller.order(order(capture_id=f"c{number}"))
    agent.controller.torch_imported()
    agent.controller.start()
    wait_until(lambda: len(agent.link.frames("capture")) == 4)
    wait_until(lambda: {0, 1, 2, 3} <= set(heard))


@pytest.mark.usefixtures("time_passes")
def test_a_broken_order_harms_nothing(agent, wait_until, swallowed):
    agent.controller.start()
    agent.link.inbox.append({"t": "order", "order": {"reason": "demand"}})
    agent.controller.wake()
    wait_until(lambda: swallowed)
    swallowed.clear()
    agent.controller.order(order())
    wait_until(lambda: agent.link.frames("capture"))
    assert agent.capture().state == "done"
