"""A companion that goes on alone, where there is no thread to see it off."""

import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from midwatch.clock import SystemClock
from midwatch.link.child import Child, _see_off

pytestmark = pytest.mark.process


@pytest.fixture
def no_thread(monkeypatch):
    """No thread starts from here on; returns what to say of that."""
    said = ["can't start new thread"]

    def refuse(thread):
        raise RuntimeError(said[0])

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return said


@pytest.fixture
def child():
    made = Child(SystemClock(), lambda: subprocess.Popen(["cat"], stdin=subprocess.PIPE))
    assert made.start()
    return made


@pytest.mark.usefixtures("no_thread")
def test_a_service_that_lives_on_without_threads_to_give_gets_no_zombie(child, wait_until):
    pid, stdin = child.pid, child._process.stdin
    with pytest.warns(ResourceWarning, match="still running"):
        assert not child.end(0.0)
    stdin.close()  # `cat` ends with its input

    def reaped():
        subprocess.run(["true"], check=True)
        return not Path(f"/proc/{pid}").exists()

    wait_until(reaped)


@pytest.mark.parametrize("words", ["can't create new thread at interpreter shutdown", ""])
def test_at_exit_nothing_is_complained_of(child, no_thread, monkeypatch, words):
    process = child._process
    no_thread[0] = words or no_thread[0]
    if not words:
        monkeypatch.setattr("midwatch.link.child.sys.is_finalizing", lambda: True)
    assert not child.end(0.0)
    assert process.returncode == 0
    process.returncode = None  # now that nobody complained: end it
    process.stdin.close()
    process.wait(10)


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGALRM, "by its own limit, since it did not end in time"),
        (signal.SIGKILL, "by somebody else (SIGKILL)"),
    ],
)
def test_who_ended_it_is_told_apart(number, how, caplog):
    caplog.set_level(logging.WARNING)
    code = f"import os; os.kill(os.getpid(), {int(number)})"
    _see_off(subprocess.Popen([sys.executable, "-c", code]))
    assert f"the companion was killed {how}, before it had handed over all that it held" in caplog.text


def test_one_that_is_on_its_way_is_told_from_one_that_died(wait_until):
    asked, release = threading.Event(), threading.Event()

    def spawn():
        asked.set()
        release.wait(20)
        return subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    child = Child(SystemClock(), spawn)
    starter = threading.Thread(target=child.start)
    starter.start()
    assert asked.wait(20)
    assert (child.starting, child.pid) == (True, 0)
    release.set()
    starter.join(20)
    process = child._process
    process.kill()
    wait_until(lambda: not child.pid)
    assert not child.starting
    child.tick()
    assert not child.starting
    assert "ended with code -9" in child.detail
    process.stdin.close()
    child.end(1.0)
