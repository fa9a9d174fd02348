"""The demo's beginning and end: it comes up, says how to look further, and leaves nothing behind."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

pytestmark = pytest.mark.process


def test_a_held_demo_ends_with_ctrl_c_and_leaves_only_the_database(world):
    database = world.folder / "kept.db"
    demo = world.start(
        "-u", "-m", "midwatch_client", "demo",
        "--hold", "--no-load", "--seconds", "1", "--port", str(world.port), "--keep-db", str(database), COLUMNS="120",
    )  # fmt: skip
    said = [demo.stdout.readline()]
    while said[-1] and "keeps running" not in said[-1]:
        said.append(demo.stdout.readline())
    assert said[-1], world.stderr(demo)
    assert f"midwatch profile ranker --requests 20 -o trace.json.gz --collector {world.address}" in "".join(said)
    children = psutil.Process(demo.pid).children(recursive=True)
    agents = world.midwatch("agents")
    assert "ranker" in agents.stdout

    demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=40)
    assert demo.returncode == 0, world.stderr(demo)
    assert "hot_sync" in rest, "the trace that was recorded on a GPU"
    assert "record_confidence" in rest
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
    assert database.exists()


def test_without_what_it_needs_the_demo_says_what_to_install(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'uvicorn' else find(name, *rest)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "midwatch_client", "demo"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "midwatch: the demo needs uvicorn; install with: pip install 'midwatch[demo]' torch\n"
