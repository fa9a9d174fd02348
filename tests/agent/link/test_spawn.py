import os
import subprocess
import sys
from pathlib import Path

import midwatch
import pytest
from midwatch.link.spawn import child_environment, interpreter_problem


def test_the_running_python_will_do():
    assert interpreter_problem() == ""


def test_what_is_no_python_is_named_in_one_sentence(tmp_path, monkeypatch):
    assert "embedded" in interpreter_problem("")
    assert "/usr/bin/uwsgi is not a Python" in interpreter_problem("/usr/bin/uwsgi")
    assert "cannot be executed" in interpreter_problem(str(tmp_path / "python3"))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert "frozen" in interpreter_problem()


def test_the_child_gets_the_services_environment_without_what_is_for_the_service_alone():
    child = child_environment(
        {
            "PATH": "/bin", "MIDWATCH_ENABLED": "1", "PYTHONSTARTUP": "/x.py", "PYTHONWARNINGS": "error",
            "PYTHONHOME": "/py", "KINETO_USE_DAEMON": "1", "COVERAGE_PROCESS_START": "rc", "SSL_CERT_FILE": "/ca",
        },
        [],
    )  # fmt: skip
    assert set(child) == {"PATH", "MIDWATCH_ENABLED", "PYTHONPATH", "PYTHONHOME", "SSL_CERT_FILE"}
    assert child["MIDWATCH_ENABLED"] == "0"


def test_the_child_finds_what_the_service_found(tmp_path):
    instrumented = tmp_path / "instrumented"
    instrumented.mkdir()
    (instrumented / "sitecustomize.py").touch()
    paths = ["", "lib", str(tmp_path / "app.pyz"), str(instrumented), f"/odd{os.pathsep}name"]
    path = child_environment({}, paths)["PYTHONPATH"].split(os.pathsep)
    here = Path.cwd()
    assert path == [str(Path(midwatch.__file__).parents[1]), str(here), str(here / "lib"), str(tmp_path / "app.pyz")]


FORK_AMID_A_SPAWN = """
import os, signal, subprocess, threading, types
from midwatch import forks
from midwatch.link import spawn

started, forked = threading.Event(), threading.Event()
made = []

def popen(_command, **options):
    process = subprocess.Popen(["cat"], **options)
    started.set()
    forked.wait(0.3)  # so long the fork has to come in between
    return process

spawn.subprocess = types.SimpleNamespace(Popen=popen, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL)
reader, writer = os.pipe()
spawning = threading.Thread(target=lambda: made.append(spawn.spawn_companion((writer,), b"{}", "")))
spawning.start()
started.wait()
child = os.fork()
if child == 0:
    with forks.held_off():
        signal.pause()
forked.set()
spawning.join()
try:
    made[0].wait(10)  # `cat` ends with its input
finally:
    made[0].kill()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.process
def test_a_child_that_the_service_forks_meanwhile_does_not_hold_the_pipes_of_the_spawn():
    done = subprocess.run([sys.executable, "-c", FORK_AMID_A_SPAWN], check=False, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
