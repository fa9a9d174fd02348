"""`midwatch run`: the service as it was, with the agent in it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from midwatch_client.commands.run import ATTACH, environment

pytestmark = pytest.mark.process


def run(*command: str, first: Path | None = None) -> subprocess.CompletedProcess:
    first_on_path = {"PYTHONPATH": os.pathsep.join([str(first), os.environ.get("PYTHONPATH", "")])} if first else {}
    return subprocess.run(
        [sys.executable, "-m", "midwatch_client", "run", "--service", "shop", "--", *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "MIDWATCH_ENABLED": "0", **first_on_path},
    )


def test_the_agent_is_imported_and_the_settings_are_passed():
    script = "import os, sys; print('midwatch.auto' in sys.modules, os.environ['MIDWATCH_SERVICE'])"
    assert run(sys.executable, "-c", script).stdout == "True shop\n"


def test_exit_code_and_arguments_are_the_services_own():
    done = run(sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(7)", "--port", "80", "--help")
    assert (done.returncode, done.stdout) == (7, "['--port', '80', '--help']\n")


def test_a_signal_reaches_the_service():
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "midwatch_client",
            "run",
            "--",
            sys.executable,
            "-uc",
            "import time; print('up'); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MIDWATCH_ENABLED": "0"},
    ) as running:
        assert running.stdout.readline() == "up\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(10) == -signal.SIGTERM


def test_the_hosts_own_sitecustomize_still_runs(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.host_was_here = __file__\n")
    script = "import sys; print(host_was_here, sys.modules['sitecustomize'].__file__, 'midwatch.auto' in sys.modules)"
    own = str(tmp_path / "sitecustomize.py")
    assert run(sys.executable, "-c", script, first=tmp_path).stdout == f"{own} {own} True\n"


def test_a_broken_sitecustomize_of_the_host_does_not_keep_the_agent_out(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("raise RuntimeError('broken')\n")
    done = run(sys.executable, "-c", "import sys; print('midwatch.auto' in sys.modules)", first=tmp_path)
    assert done.stdout == "True\n"
    assert "broken" in done.stderr


def test_a_python_without_midwatch_serves_all_the_same(tmp_path: Path):
    # -I would drop the hook as well; a foreign environment is one whose site-packages hold no midwatch.
    blocker = "import sys\nsys.modules['midwatch'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(blocker)
    done = run(sys.executable, "-c", "print('served')", first=tmp_path)
    assert (done.returncode, done.stdout) == (0, "served\n")
    assert "runs without the agent" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_environment_keeps_what_was_there():
    made = environment({"PYTHONPATH": "/srv/lib", "MIDWATCH_SERVICE": "old"}, "", "")
    assert made == {"PYTHONPATH": f"{ATTACH}{os.pathsep}/srv/lib", "MIDWATCH_SERVICE": "old"}
