"""Windows beside operators, sessions of the user's, forks and exits: in real processes, with the real profiler."""

from __future__ import annotations

import signal

import pytest
from midwatch.capture.latch import Latch

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]  # the first test waits for all scenarios


def test_many_windows_under_four_threads_of_operators(scenarios):
    outcome = scenarios("stress")
    assert outcome.code == 0, outcome.output[-2000:]
    for kind, windows in (("direct", 50), ("direct deep", 8), ("capped", 8)):
        assert outcome.results[kind]["windows"] == windows
        assert outcome.results[kind]["states"] == ["done"]
        assert outcome.results[kind]["threads"] >= 1, "operators of other threads were recorded"
        assert outcome.results[kind]["shapes"] is (kind == "direct deep")


def test_windows_print_nothing_into_the_service(scenarios):
    lines = [line for line in scenarios("stress").output.splitlines() if not line.startswith("RESULT ")]
    # Kineto's own remark on its very first session, made before any log level is looked at.
    assert [line for line in lines if "External init callback" not in line] == []


@pytest.mark.parametrize("engine", ["direct", "capped"])
class TestBesideTheUsersProfiler:
    def test_the_process_lives(self, scenarios, engine):
        outcome = scenarios("user")
        assert outcome.code == 0, outcome.output[-2000:]
        assert outcome.results[engine]["first"]["state"] == "done"
        assert outcome.results[engine]["last"]["state"] == "done"

    @pytest.mark.parametrize("place", ["inside_users", "warm_up"])
    def test_ours_is_refused_inside_theirs(self, scenarios, engine, place):
        answer = scenarios("user").results[engine][place]
        assert answer == {"state": "refused", "detail": "a profiler session of the service is open"}

    def test_ours_opens_again_after_theirs(self, scenarios, engine):
        assert scenarios("user").results[engine]["after_users"]["state"] == "done"

    @pytest.mark.parametrize("place", ["in_recording", "in_deep"])
    def test_theirs_ends_ours(self, scenarios, engine, place):
        results = scenarios("user").results[engine]
        assert results[place]["state"] == "yielded"
        assert results["user_waited_s"] < 5.0, "our window would have lasted for 20 s"

    def test_theirs_waits_for_our_stop(self, scenarios, engine):
        assert scenarios("user").results[engine]["in_stop"]["state"] == "done"

    def test_theirs_wins_while_ours_opens(self, scenarios, engine):
        assert scenarios("user").results[engine]["in_open"]["state"] in ("yielded", "refused")

    def test_theirs_always_records(self, scenarios, engine):
        results = scenarios("user").results[engine]
        seen = {name: value for name, value in results.items() if name.startswith("user_seen")}
        assert len(seen) == 5
        assert min(seen.values()) > 0, seen


def test_both_sides_at_random(scenarios):
    storm = scenarios("user").results["storm"]
    assert storm["users"] > 5
    assert storm["users_blind"] == 0
    assert set(storm["states"]) <= {"done", "refused", "yielded"}


def test_misuse_is_an_exception_of_pythons(scenarios):
    results = scenarios("user").results["exceptions"]
    assert results["save_empty"] == "an empty profiler result cannot be saved"
    assert results["wrong_thread"] == "a window can only be ended on the thread that opened it"
    assert results["its_own_thread"] == "done"


def test_the_wrappers_go_on_once_and_come_off(scenarios):
    results = scenarios("user").results
    assert results["wrapped_once"] is True
    assert results["unwrapped"] is True
    assert results["flag"] is False, "the user's own flag is not touched"


def test_a_service_that_crashed_gets_the_next_engine(scenarios):
    latched = scenarios("user").results["latched"]
    assert latched["engine"] == "capped"
    assert latched["state"] == "unavailable"
    assert "crashed (SIGSEGV) in a window, phase recording" in latched["why"]
    assert latched["again"] == "direct", "with the marker removed it is tried again"


@pytest.mark.parametrize("phase", ["recording", "stop", "deaf"])
def test_exit_in_a_window(scenarios, state_root, phase):
    outcome = scenarios(f"exit {phase}")
    assert outcome.code == 0, outcome.output[-2000:]
    assert outcome.results["owner"] == "direct", "a window was open when the interpreter began to exit"


def test_exit_leaves_no_verdict_behind(scenarios, state_root):
    import torch

    for phase in ("recording", "stop", "deaf"):
        scenarios(f"exit {phase}")
        assert Latch(str(state_root / f"exit-{phase}"), "scenario", torch.__version__, "direct").verdict() == ""


def test_forked_children(scenarios):
    outcome = scenarios("forks")
    assert outcome.code == 0, outcome.output[-2000:]
    states = {name: outcome.results.pop(name) for name in ("first", "window", "last")}
    assert set(states.values()) == {"done"}
    assert outcome.results.pop("in_window_status") == 3, "a child's own exit status is kept"
    assert outcome.results == dict.fromkeys(outcome.results, 0)
    assert len(outcome.results) == 8


def test_a_crash_in_a_real_window_is_remembered(scenarios, state_root):
    import torch

    outcome = scenarios("crash")
    assert outcome.code == -signal.SIGSEGV
    verdict = Latch(str(state_root / "crash"), "scenario", torch.__version__, "direct").verdict()
    assert verdict.startswith("this service crashed (SIGSEGV) in a window, phase recording: remove ")
