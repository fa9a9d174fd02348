"""The command line as a person meets it: help, errors in one sentence, exit codes."""

import inspect
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from midwatch.model.finding import Kind
from midwatch_client import cli
from midwatch_client.commands.incidents import parse_kind, span_ns
from midwatch_client.errors import Failure

COMMANDS = ["demo", "collector", "run", "agents", "profile", "incidents", "show", "trace"]
COMMANDS += ["analyze", "diff", "replay", "doctor"]
HEAVY = ["grpc", "google", "numpy", "msgspec", "rich.table", "sqlalchemy", "torch", "uvicorn", "midwatch.trace"]


def midwatch(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "midwatch_client", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.process
def test_help_lists_every_command_with_its_docstring():
    shown = midwatch("--help", COLUMNS="200")
    assert shown.returncode == 0
    for name in COMMANDS:
        first = inspect.getdoc(getattr(cli, name)).splitlines()[0]
        line = next(line for line in shown.stdout.splitlines() if line.strip().startswith(f"{name} "))
        assert line.split(None, 1)[1][:40] == first[:40]
    assert "db" in shown.stdout


@pytest.mark.process
def test_help_imports_nothing_heavy():
    script = f"import sys, midwatch_client.cli; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.process
def test_without_a_collector_the_remedy_is_named(closed_port: int):
    failed = midwatch("incidents", "--collector", f"127.0.0.1:{closed_port}")
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr == (
        f"midwatch: no collector at 127.0.0.1:{closed_port}; start one with `midwatch collector`\n"
    )


@pytest.mark.process
def test_the_collector_comes_from_the_environment(closed_port: int):
    failed = midwatch("agents", "--json", MIDWATCH_COLLECTOR=f"127.0.0.1:{closed_port}")
    assert f"127.0.0.1:{closed_port}" in failed.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["incidents", "--kind", "slow"], "there is no kind 'slow'"),
        (["incidents", "--since", "yesterday"], "such as 2h"),
        (["incidents", "--since", "1e400d"], "such as 2h"),
        (["profile", "ranker", "--requests", "3", "--seconds", "1"], "not both"),
        (["profile", "ranker", "--requests", "0"], "--requests"),
        (["profile"], "Missing argument"),
        (["replay"], "Missing argument"),
        (["nonsense"], "nonsense"),
        (["run", "--", "/no/such/program"], "no program"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], said: str):
    failed = midwatch(*arguments)
    assert failed.returncode == 2
    assert said in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.process
def test_version():
    shown = midwatch("--version")
    assert (shown.returncode, shown.stdout.split()[0]) == (0, "midwatch")


@pytest.mark.process
def test_ctrl_c_ends_with_130_and_no_traceback():
    # A listener that never answers: the command waits until it is interrupted.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        waiting = subprocess.Popen(
            [sys.executable, "-m", "midwatch_client", "incidents", "--collector", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        silent.settimeout(30)
        connection, _ = silent.accept()  # it is connected, so it is past its imports
        with connection:
            waiting.send_signal(signal.SIGINT)
            _, said = waiting.communicate(timeout=20)
    assert waiting.returncode == 130
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("stops", "code"),
    [(Failure("no", 2), 2), (Failure("no"), 1), (KeyboardInterrupt(), 130)],
)
def test_whatever_stops_a_command_becomes_its_exit_code(stops: BaseException, code: int):
    def command() -> None:
        raise stops

    with pytest.raises(typer.Exit) as ended:
        cli._ends_well(command)()
    assert ended.value.exit_code == code


def test_a_module_that_is_missing_is_named_with_its_package(capsys: pytest.CaptureFixture):
    def command() -> None:
        raise ModuleNotFoundError("No module named 'grpc'", name="grpc")

    with pytest.raises(typer.Exit) as ended:
        cli._ends_well(command)()
    assert ended.value.exit_code == 1
    said = capsys.readouterr().err
    assert said == "midwatch: this needs grpc, which is not installed in this environment: pip install grpcio\n"


@pytest.mark.process
def test_a_reader_that_leaves_early_is_no_error(left_early):
    done = left_early(f"{sys.executable} -m midwatch_client doctor --json")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1.5h", 5400), ("7d", 604_800), ("1w", 604_800)]
)
def test_spans(text: str, seconds: int):
    assert span_ns(text) == seconds * 10**9


@pytest.mark.parametrize("text", ["", "h", "2", "2y", "-", "infh", "nans"])
def test_spans_that_are_none(text: str):
    with pytest.raises(Failure):
        span_ns(text)


def test_kinds():
    assert parse_kind("") is None
    assert parse_kind("gc_pause") is Kind.GC_PAUSE
    with pytest.raises(Failure, match="hot_sync"):
        parse_kind("unknown")


@pytest.mark.process
def test_a_time_before_all_times_asks_for_everything(closed_port: int):
    failed = midwatch("incidents", "--since", "99999999999d", "--collector", f"127.0.0.1:{closed_port}")
    assert (failed.returncode, "Traceback" in failed.stderr) == (1, False)
    assert "no collector at" in failed.stderr


@pytest.mark.process
@pytest.mark.parametrize("arguments", [("--help",), ("analyze", "--help"), ("replay", "-"), ("replay", "-", "--json")])
def test_output_that_nobody_can_keep_is_one_sentence(arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "midwatch_client", *arguments],
            check=False,
            input="5.0\n6.0\n",
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.stderr == "midwatch: the output could not be written: No space left on device\n"
    assert done.returncode == 1
