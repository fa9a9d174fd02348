"""`midwatch demo`: see it work, in a minute."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from midwatch_client.commands.common import Failure, console


def demo(
    seconds: Annotated[float, typer.Option("--seconds", min=1.0, help="How long the load lasts at most.")] = 90.0,
    no_load: Annotated[
        bool, typer.Option("--no-load", help="Start collector and service only; drive them yourself.")
    ] = False,
    keep_db: Annotated[
        Path | None, typer.Option("--keep-db", metavar="PATH", help="Keep the collector's database there.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="Port of the collector; another one if it is taken.")
    ] = 7171,
    hold: Annotated[
        bool, typer.Option("--hold", help="Keep everything running until Ctrl-C, to try other commands on it.")
    ] = False,
) -> None:
    """See it work: a collector, a faulty service, a load.

    Prints what Midwatch says about them, and checks it: the faults are planted in the service's code, where a comment
    says FAULT, and fewer than three of them found with the right kind and the exact line is an error.
    """
    missing = [name for name in ("sqlalchemy", "alembic", "starlette", "torch", "uvicorn") if find_spec(name) is None]
    if missing:
        raise Failure(f"the demo needs {' and '.join(missing)}; install with: pip install 'midwatch[demo]' torch")
    from midwatch_client.demo.show import Plan, play

    if not play(Plan(seconds, load=not no_load, hold=hold, keep_db=keep_db, port=port), console()):
        raise Failure(
            "the demo did not find what was planted; the machine may be too busy, or something is broken here"
        )
