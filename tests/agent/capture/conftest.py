"""Scenario processes: real torch, real threads, real ends. They run once, two at a time; tests read their outcome."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from midwatch.capture.build import ShimBuildError, build_shim

SCENARIOS = Path(__file__).with_name("scenarios")
AGENT = Path(__file__).parents[3] / "agent"

RUNS = {
    "stress": ("stress.py", "50", "8", "8"),
    "user": ("user.py", "2"),
    "forks": ("forks.py",),
    "exit recording": ("exits.py", "RECORDING"),
    "exit stop": ("exits.py", "STOP"),
    "exit deaf": ("exits.py", "deaf"),
    "crash": ("crash.py",),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scenario process ended, and the dictionary that it printed last."""

    code: int
    results: dict
    output: str


@pytest.fixture(scope="session")
def built_shim():
    """What the direct engine and the crash marker need: where it cannot be built, their tests fail."""
    try:
        build_shim()
    except ShimBuildError as error:
        pytest.fail(f"the direct engine cannot be tested here: {error}", pytrace=False)


@pytest.fixture(scope="session")
def state_root(tmp_path_factory):
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="session")
def scenarios(built_shim, state_root):
    """All scenarios, run once and to their end; ``scenarios("user")`` is the outcome of one."""
    with ThreadPoolExecutor(2) as pool:
        futures = {
            name: pool.submit(run, command, state_root / name.replace(" ", "-")) for name, command in RUNS.items()
        }
    return lambda name: futures[name].result()


def run(command, state):
    """Run one scenario to its end, at most 100 s."""
    done = subprocess.run(
        [sys.executable, str(SCENARIOS / command[0]), *command[1:]],
        env=environment(SCENARIO_STATE=str(state)),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return Outcome(done.returncode, json.loads(results[-1][7:]) if results else {}, done.stdout + done.stderr)


def environment(**more):
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("KINETO", "TEARDOWN", "MIDWATCH"))
    }
    return {**kept, "PYTHONPATH": str(AGENT), **more}
