"""Guard, drops, workers, stacks of parts, and clocks."""

import logging
import threading
import time

import pytest
from midwatch import agent as agent_module
from midwatch import backroom
from midwatch.clock import SystemClock
from midwatch.config import Settings, load
from midwatch.drops import Drops
from midwatch.guard import Guard
from midwatch.integrations.imports import ImportHooks
from midwatch.lifecycle import Stack, Worker
from midwatch.model.status import AgentStatus
from midwatch.requests.roots import Roots
from midwatch.requests.tracker import Tracker
from midwatch.requests.units import Units
from midwatch.testing import FakeClock


class TestGuard:
    def test_an_error_is_counted_by_place_and_logged_once_a_minute(self, caplog):
        now = [100.0]
        guard = Guard(lambda: now[0])
        with caplog.at_level(logging.WARNING, "midwatch"):
            for _ in range(3):
                assert guard.call("here", int, "x", default=7) == 7
            assert len(caplog.records) == 1
            now[0] = 161.0
            with guard.at("here"):
                raise KeyError
            with guard.at("there"):
                raise KeyError
        assert len(caplog.records) == 3
        assert guard.counts() == (("here", 4), ("there", 1))

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_what_belongs_to_the_host_passes(self, error):
        guard = Guard()

        def stop():
            raise error

        with pytest.raises(error):
            guard.call("here", stop, default=None)
        with pytest.raises(error), guard.at("here"):
            raise error
        assert guard.counts() == ()

    def test_a_witness_sees_what_was_swallowed(self):
        guard = Guard()
        seen = []
        guard.witness = lambda place, error: seen.append((place, type(error)))
        guard.call("here", int, "x", default=0)
        assert seen == [("here", ValueError)]

    def test_a_handler_of_the_hosts_that_fails_stays_where_it_is(self):
        class Failing(logging.Handler):
            def emit(self, record):
                raise OSError("the log is full")

        guard, handler = Guard(), Failing()
        logging.getLogger("midwatch").addHandler(handler)
        try:
            assert guard.call("here", int, "x", default=7) == 7
        finally:
            logging.getLogger("midwatch").removeHandler(handler)
        assert guard.counts() == (("here", 1),)


@pytest.mark.parametrize("what", ["guard", "drops"])
def test_a_finaliser_that_runs_amid_a_count_may_count_itself(what):
    """To allocate may start a collection, on this very thread, with the lock in its hands."""
    guard, drops = Guard(), Drops()
    lock = (guard if what == "guard" else drops)._lock
    done = threading.Event()

    def finalise():
        with lock:
            if what == "guard":
                guard.call("here", int, "x", default=0)
            else:
                drops.drop("full")
        done.set()

    threading.Thread(target=finalise, daemon=True).start()
    assert done.wait(10)
    assert (guard if what == "guard" else drops).counts()


def test_drops_are_counted_by_reason():
    drops = Drops()
    drops.drop("full")
    drops.drop("late", 3)
    drops.drop("full")
    assert drops.counts() == (("full", 2), ("late", 3))


class TestWorker:
    def test_it_is_a_named_daemon_that_stops_on_request_and_can_start_again(self):
        seen = []
        running = threading.Event()

        def body(stop):
            seen.append((threading.current_thread().name, threading.current_thread().daemon))
            running.set()
            stop.wait(30)

        worker = Worker("midwatch-test", body)
        assert not worker.alive
        for _ in range(2):
            running.clear()
            worker.start()
            worker.start()
            assert running.wait(10)
            assert worker.stop(10)
            assert not worker.alive
        assert seen == [("midwatch-test", True)] * 2

    def test_a_body_that_waits_elsewhere_is_roused(self):
        elsewhere = threading.Event()
        worker = Worker("midwatch-test", lambda _stop: elsewhere.wait(30))
        worker.start()
        assert not worker.stop(0.01)
        assert worker.stop(10, wake=elsewhere.set)

    def test_one_whose_thread_was_not_given_can_be_stopped(self, monkeypatch):
        def none_left(thread):
            raise RuntimeError("can't start new thread")

        worker = Worker("midwatch-test", lambda _stop: None)
        with monkeypatch.context() as broken:
            broken.setattr(threading.Thread, "start", none_left)
            with pytest.raises(RuntimeError, match="new thread"):
                worker.start()
        assert worker.stop()

    def test_an_error_ends_the_thread_alone(self, swallowed):
        worker = Worker("midwatch-test", lambda _stop: 1 / 0)
        worker.start()
        assert worker.stop(10)
        assert [place for place, _ in swallowed] == ["thread.midwatch-test"]
        swallowed.clear()


class TestStack:
    class Part:
        def __init__(self, log, name, *, fails=False):
            self.log, self.name, self.fails = log, name, fails

        def start(self):
            if self.fails:
                raise OSError("no")
            self.log.append(f"+{self.name}")

        def stop(self):
            self.log.append(f"-{self.name}")
            if self.name == "b":
                raise OSError("stuck")

    def test_parts_stop_in_reverse_and_one_that_fails_keeps_none_from_stopping(self, swallowed):
        log = []
        stack = Stack()
        assert stack.start("a", self.Part(log, "a"))
        assert not stack.start("x", self.Part(log, "x", fails=True))
        assert stack.start("b", self.Part(log, "b"))
        assert stack.start("c", self.Part(log, "c"))
        stack.stop()
        stack.stop()
        assert log == ["+a", "+b", "+c", "-c", "-b", "-a"]
        assert [place for place, _ in swallowed] == ["start.x", "stop.b"]
        swallowed.clear()


class TestClocks:
    def test_the_two_real_clocks_agree(self):
        clock = SystemClock()
        assert abs(clock.to_unix(clock.perf_ns()) - time.time_ns()) < 50_000_000
        assert not clock.wait(threading.Event(), 0.0)

    def test_a_process_that_started_before_the_clock_was_set_corrects_its_start(self):
        clock, year_ns = FakeClock(), 365 * 86_400 * 10**9
        now_ns = clock.unix_ns()
        clock._offset_ns -= 50 * year_ns
        tracker = Tracker(clock)
        units = Units(clock, tracker)
        roots, hooks = Roots(clock, units), ImportHooks()
        room = backroom.Backroom(
            Settings(),
            clock,
            tracker=tracker,
            units=units,
            roots=roots,
            hooks=hooks,
            status=lambda _give_way: AgentStatus(0),
        )
        assert room._resource.start_unix_ns == now_ns - 50 * year_ns
        clock.advance(60.0)
        clock._offset_ns += 50 * year_ns
        room._look_at_clocks()
        assert room._resource.start_unix_ns == now_ns
        assert room._link._resource == room._resource, "later companions and the collector hear of it"
        clock._offset_ns += 1000  # nobody needs to hear of every correction
        kept = room._resource
        room._look_at_clocks()
        assert room._resource is kept

    def test_a_fake_clock_moves_only_by_hand(self):
        clock = FakeClock()
        before = clock.perf_ns(), clock.unix_ns()
        assert (clock.perf_ns(), clock.unix_ns()) == before
        assert not clock.wait(threading.Event(), 2.0)
        assert clock.perf_ns() == before[0] + 2_000_000_000
        assert clock.to_unix(clock.perf_ns()) == clock.unix_ns()
        event = threading.Event()
        event.set()
        assert clock.wait(event, 5.0)
        assert clock.slept == [2.0]


class TestTheEnd:
    def test_what_it_cost_is_one_line(self, caplog, monkeypatch):
        counts = Drops()
        monkeypatch.setattr(backroom, "drops", counts)
        counts.drop("link_full", 2)
        before = dict(counts.counts())
        backroom._tell_losses(before)
        assert caplog.records == []
        counts.drop("link_full", 3)
        counts.drop("link_unread")
        backroom._tell_losses(before)
        (record,) = caplog.records
        assert record.getMessage() == (
            "midwatch: not all that was seen could be handed over at the end: link_full 3, link_unread 1"
        )

    def test_an_agent_that_does_not_end_in_time_is_counted_and_said(self, caplog, monkeypatch, tmp_path):
        counts, ended = Drops(), threading.Event()
        monkeypatch.setattr(agent_module, "drops", counts)
        monkeypatch.setattr(agent_module, "_STOP_S", 0.01)
        agent = agent_module.Agent(load({"state_dir": str(tmp_path)}, environ={}))
        agent._worker = Worker("midwatch-agent", lambda _stop: ended.wait())
        agent._worker.start()
        agent._stop_worker()
        assert counts.counts() == (("stop_timeout", 1),)
        assert "did not end within 0 s" in caplog.text
        ended.set()
        assert agent._worker.stop()
