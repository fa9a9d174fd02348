"""The crash latch against processes that really die."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from midwatch.capture import latch as latch_module
from midwatch.capture.latch import Latch, Phase

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("built_shim")]
VICTIM = Path(__file__).with_name("scenarios") / "latch_victim.py"


@pytest.fixture
def latch(tmp_path):
    return Latch(str(tmp_path), "shop", "2.13.0", "direct")


def markers(tmp_path):
    return list(tmp_path.rglob("*.mark"))


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def die(tmp_path, phase, end):
    """Have a process die in ``phase``; returns its exit status and its standard error."""
    agent = str(Path(__file__).parents[3] / "agent")
    done = subprocess.run(
        [sys.executable, str(VICTIM), str(tmp_path), phase, end],
        env={**os.environ, "PYTHONPATH": agent},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("phase", "end", "code"),
    [
        ("RECORDING", "fault", -signal.SIGSEGV),
        ("SETTLE", "SIGABRT", -signal.SIGABRT),
        ("STOP", "SIGBUS", -signal.SIGBUS),
    ],
)
def test_one_fatal_signal_puts_the_engine_off(tmp_path, latch, phase, end, code):
    status, errors = die(tmp_path, phase, end)
    assert status == code, "the signal still kills the process"
    assert "Fatal Python error" in errors, "and the host's own handler had its turn"
    name = signal.Signals(-code).name
    assert latch.verdict().startswith(f"this service crashed ({name}) in a window, phase {phase.lower()}: remove ")
    assert latch.verdict(), "until somebody removes the marker"


def test_a_kill_in_the_middle_of_a_recording_means_nothing(tmp_path, latch):
    for _ in range(3):
        assert die(tmp_path, "RECORDING", "SIGKILL")[0] == -signal.SIGKILL
    assert latch.verdict() == ""
    assert markers(tmp_path) == []


def test_two_kills_in_a_critical_phase_put_the_engine_off(tmp_path, latch):
    die(tmp_path, "STOP", "SIGKILL")
    assert latch.verdict() == ""
    die(tmp_path, "SAVE", "SIGKILL")
    assert "died 2 times in a window's critical phase (save, stop)" in latch.verdict()


def test_an_exit_and_a_fault_after_the_window_mean_nothing(tmp_path, latch):
    die(tmp_path, "RECORDING", "exit")
    die(tmp_path, "RECORDING", "fault-after")
    assert latch.verdict() == ""
    assert markers(tmp_path) == []


def test_a_child_that_lives_on_does_not_hide_the_crash(tmp_path, latch):
    agent = str(Path(__file__).parents[3] / "agent")
    command = [sys.executable, str(VICTIM), str(tmp_path), "RECORDING", "child-lives"]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": agent}, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        assert process.wait(20) == -signal.SIGSEGV
        deadline = time.monotonic() + 10
        while not latch.verdict() and time.monotonic() < deadline:
            time.sleep(0.01)  # the child lets go of the marker as soon as it runs
        assert "SIGSEGV" in latch.verdict()
        os.killpg(process.pid, 0)  # raises where the child is gone
    finally:
        os.killpg(process.pid, signal.SIGKILL)


def test_the_marker_of_a_living_process_is_left_alone(tmp_path, latch):
    agent = str(Path(__file__).parents[3] / "agent")
    command = [sys.executable, str(VICTIM), str(tmp_path), "STOP", "stay"]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": agent}, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"in\n"
        assert latch.verdict() == ""
        assert len(markers(tmp_path)) == 1
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_marker_lies_only_while_a_window_is_open(tmp_path, latch):
    latch.enter(Phase.OPEN)
    assert markers(tmp_path)[0].read_bytes()[4] == Phase.OPEN
    latch.enter(Phase.SAVE)
    assert markers(tmp_path)[0].read_bytes()[4] == Phase.SAVE
    latch.clear()
    assert markers(tmp_path) == []
    latch.clear()


def test_engines_and_torch_versions_have_latches_of_their_own(tmp_path, latch):
    die(tmp_path, "RECORDING", "SIGSEGV")
    assert latch.verdict()
    assert Latch(str(tmp_path), "shop", "2.14.1", "direct").verdict() == ""
    assert Latch(str(tmp_path), "shop", "2.13.0", "capped").verdict() == ""


def test_without_a_state_directory_there_is_no_latch(tmp_path):
    latch = Latch(None, "shop", "2.13.0", "direct")
    latch.enter(Phase.OPEN)
    latch.clear()
    assert latch.verdict() == ""


def test_a_file_that_is_no_marker_is_removed(tmp_path, latch):
    latch.enter(Phase.OPEN)
    folder = markers(tmp_path)[0].parent
    latch.clear()
    (folder / "x.mark").write_bytes(b"torn")
    os.utime(folder / "x.mark", (time.time(), time.time()))
    assert latch.verdict() == ""
    assert markers(tmp_path) == []


def test_a_disk_that_takes_nothing_costs_the_latch_and_no_descriptor(tmp_path, latch, monkeypatch, swallowed):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = descriptors()
    with monkeypatch.context() as broken:
        broken.setattr(os, "write", full)
        for _ in range(3):
            for phase in (Phase.OPEN, Phase.RECORDING, Phase.STOP, Phase.SAVE, Phase.SETTLE):
                latch.enter(phase)
            latch.clear()
    assert descriptors() == before
    assert markers(tmp_path) == []
    assert not swallowed
    assert "cannot be written (No space left on device); set MIDWATCH_STATE_DIR" in latch.problem
    latch.enter(Phase.OPEN)
    assert len(markers(tmp_path)) == 1, "and the next window tries again"
    assert latch.problem == ""
    latch.clear()


def test_a_folder_that_cannot_be_written_is_told_once_in_one_line(tmp_path, swallowed, caplog):
    (tmp_path / "file").touch()
    latch = Latch(str(tmp_path / "file" / "state"), "shop", "2.13.0", "direct")
    assert latch.verdict() == ""
    latch.try_out()
    problem = latch.problem
    assert problem.startswith("the crash latch is off: ")
    assert "(Not a directory); set MIDWATCH_STATE_DIR to a folder that can be" in problem
    for _ in range(3):
        latch.enter(Phase.OPEN)
        latch.enter(Phase.STOP)
        latch.clear()
    assert latch.problem == problem
    assert [(record.getMessage(), record.exc_info) for record in caplog.records] == [(f"midwatch: {problem}", None)]
    assert not swallowed


def test_trying_out_leaves_nothing_behind(tmp_path, latch):
    latch.try_out()
    assert latch.problem == ""
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    Latch(None, "shop", "2.13.0", "direct").try_out()


def test_a_marker_that_cannot_be_removed_costs_no_descriptor(tmp_path, latch, monkeypatch, swallowed):
    before = descriptors()
    latch.enter(Phase.OPEN)
    with monkeypatch.context() as broken:
        broken.setattr(latch_module, "_remove", _read_only)
        latch.clear()
    assert descriptors() == before
    assert "Read-only file system" in latch.problem
    assert latch.verdict() == "", "it is no crash, and the next look removes it"
    assert not swallowed


def test_markers_are_read_where_they_cannot_be_written(tmp_path, latch, monkeypatch):
    die(tmp_path, "RECORDING", "SIGSEGV")
    real = Path.open

    def read_only(path, mode="r", *rest, **more):
        return _read_only() if "+" in mode else real(path, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", read_only)
    assert "SIGSEGV" in latch.verdict()


def test_a_marker_that_another_process_has_removed_meanwhile_is_no_error(tmp_path, latch, monkeypatch, swallowed):
    gone = tmp_path / "latch" / "shop__2.13.0__direct" / "gone.mark"
    monkeypatch.setattr(Path, "glob", lambda _folder, _pattern: [gone])
    assert latch.verdict() == ""
    assert not swallowed


def _read_only(*_):
    raise OSError(errno.EROFS, "Read-only file system")
