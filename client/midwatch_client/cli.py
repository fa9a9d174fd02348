"""The `midwatch` command: one file a command in `midwatch_client.commands`, registered here."""

from __future__ import annotations

import errno
import functools
import io
import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from midwatch_client.commands.agents import agents
from midwatch_client.commands.analyze import analyze
from midwatch_client.commands.collector import collector
from midwatch_client.commands.common import progress
from midwatch_client.commands.db import upgrade
from midwatch_client.commands.demo import demo
from midwatch_client.commands.diff import diff
from midwatch_client.commands.doctor import doctor
from midwatch_client.commands.incidents import incidents
from midwatch_client.commands.profile import profile
from midwatch_client.commands.replay import replay
from midwatch_client.commands.run import run
from midwatch_client.commands.show import show
from midwatch_client.commands.trace import trace
from midwatch_client.errors import Failure

INTERRUPTED = 130
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_PACKAGES = {"grpc": "grpcio", "google": "protobuf", "numpy": "numpy", "msgspec": "msgspec"}


def _ends_well(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command end as a person expects: a sentence instead of a traceback, whatever stopped it."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except Failure as failure:
            progress(f"midwatch: {failure}")
            raise typer.Exit(failure.code) from None
        except ModuleNotFoundError as error:
            name = (error.name or "").partition(".")[0]
            if not name or name.startswith("midwatch"):
                raise
            remedy = f"pip install {_PACKAGES.get(name, 'midwatch')}"
            progress(f"midwatch: this needs {name}, which is not installed in this environment: {remedy}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _write_no_more()  # the reader had enough

    return guarded


def _write_no_more() -> None:
    """Python flushes once more at exit, which must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build() -> typer.Typer:
    """The command line with all its commands."""
    plain: dict[str, Any] = {"rich_markup_mode": None, "add_completion": False, "pretty_exceptions_enable": False}
    app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}, **plain)
    app.callback()(_about)
    for command in (demo, collector, run, agents, profile, incidents, show, trace, analyze, diff, replay, doctor):
        app.command()(_ends_well(command))
    database = typer.Typer(no_args_is_help=True, help="Look after the collector's database.", **plain)
    database.callback()(_about_db)
    database.command()(_ends_well(upgrade))
    app.add_typer(database, name="db")
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from midwatch._version import __version__

        sys.stdout.write(f"midwatch {__version__}\n")
        raise typer.Exit


def _about(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """The night watch for PyTorch services: says why a request was slow, with file and line."""


def _about_db() -> None:
    """Look after the collector's database."""


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal has no letters for is no reason to fail: it is written as an escape, too.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        build()(prog_name="midwatch")
    except OSError as error:
        if error.errno not in _FULL:
            raise
        progress(f"midwatch: the output could not be written: {os.strerror(error.errno or 0)}")
        _write_no_more()
        sys.exit(1)
