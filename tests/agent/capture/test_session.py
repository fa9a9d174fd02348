"""The lock between the user's profiler sessions and ours."""

from __future__ import annotations

import threading

import pytest
from midwatch.capture import session as module
from midwatch.capture.session import ProfilerSession


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(module, "_python_flag", lambda: False)
    return ProfilerSession()


def test_ours_is_refused_from_prepare_to_the_end_of_every_session_of_the_users(session):
    session.user_begins(1)
    session.user_begins(2)
    session.user_ends(1)
    assert session.try_acquire("direct") == "a profiler session of the service is open"
    session.user_ends(2)
    assert session.try_acquire("direct") == ""
    assert session.user_ended_s > 0


def test_one_window_at_a_time(session):
    assert session.try_acquire("direct") == ""
    assert session.try_acquire("capped") == "the direct engine has a window open"
    session.release()
    assert session.try_acquire("capped") == ""


def test_a_user_waits_for_our_window_and_wakes_its_thread(session):
    session.try_acquire("direct")
    woken = threading.Event()
    session.on_wanted(woken.set)
    user = threading.Thread(target=session.user_begins, args=(1,))
    user.start()
    assert woken.wait(10)
    assert session.wanted.is_set()
    assert user.is_alive()
    session.release()
    user.join(10)
    assert not user.is_alive()
    assert session.yielded == 1
    assert not session.wanted.is_set()
    assert session.try_acquire("direct") != "", "the user has it now"


def test_a_window_that_does_not_end_cannot_hold_the_user_for_good(session, monkeypatch, caplog):
    monkeypatch.setattr(module, "YIELD_TIMEOUT_S", 0.01)
    session.try_acquire("direct")
    session.user_begins(1)
    assert "did not end" in caplog.text


def test_exit_takes_the_profiler_for_good(session, monkeypatch):
    monkeypatch.setattr(module, "EXIT_TIMEOUT_S", 0.01)
    session.try_acquire("direct")
    muted = threading.Event()
    session.mute = muted.set
    session.exit()
    assert muted.is_set(), "callbacks of a window that did not end are taken out"
    session.release()
    assert session.try_acquire("direct") == "the process is exiting"


def test_a_session_from_before_the_wrappers_ends_under_a_key_never_seen(session, monkeypatch):
    monkeypatch.setattr(module, "_python_flag", lambda: True)
    session.found_running()
    assert session.try_acquire("direct") != ""
    monkeypatch.setattr(module, "_python_flag", lambda: False)
    session.user_ends(1234)
    assert session.try_acquire("direct") == ""


def test_a_profiler_that_only_torchs_flag_shows(session, monkeypatch):
    monkeypatch.setattr(module, "_python_flag", lambda: True)
    assert session.try_acquire("direct") == "another profiler is running in the service"


def test_in_a_forked_child_nothing_waits_and_nothing_opens(session, monkeypatch):
    left = []
    monkeypatch.setattr(module, "leave_without_destructors", lambda: left.append(True))
    session.try_acquire("direct")
    muted = threading.Event()
    session.mute = muted.set
    session.after_fork()
    assert muted.is_set()
    assert left == [True], "Kineto's thread is missing in the child"
    assert session.try_acquire("direct") == module.FORKED
    session.user_begins(1)  # returns at once: there is no thread that could give the window up
    session.user_ends(1)


def test_a_child_forked_before_the_first_window_leaves_as_it_likes(session, monkeypatch):
    left = []
    monkeypatch.setattr(module, "leave_without_destructors", lambda: left.append(True))
    session.after_fork()
    assert left == []
