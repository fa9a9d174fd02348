"""What the commands share: options, output, errors. Imported for every ``midwatch --help``, so nothing heavy here."""

from __future__ import annotations

import json
import math
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from midwatch_server.visible import visible

from midwatch_client.errors import Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

DEFAULT_COLLECTOR = "127.0.0.1:7171"

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
CollectorOption = Annotated[
    str,
    typer.Option(
        "--collector",
        metavar="ADDR",
        envvar="MIDWATCH_COLLECTOR",
        help="Address of the collector, host:port.",
    ),
]

__all__ = [
    "DEFAULT_COLLECTOR",
    "CollectorOption",
    "Failure",
    "JsonFlag",
    "console",
    "listing",
    "print_json",
    "progress",
    "say",
]


def console() -> Console:
    """A console on standard output; colours only on a terminal."""
    from midwatch_client.console import PlainConsole

    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120
    return PlainConsole(sys.stdout, width=wide)


def print_json(document: Any) -> None:
    """One JSON document on standard output. JSON has no word for what is no number: it is null, not known."""
    sys.stdout.write(json.dumps(_numbers(document), indent=2, allow_nan=False) + "\n")


def _numbers(document: Any) -> Any:
    if isinstance(document, float):
        return document if math.isfinite(document) else None
    if isinstance(document, dict):
        return {key: _numbers(value) for key, value in document.items()}
    return [_numbers(item) for item in document] if isinstance(document, (list, tuple)) else document


def say(text: str) -> None:
    """One line on standard output."""
    sys.stdout.write(f"{visible(text)}\n")


def listing(name: str, items: Sequence[Any]) -> dict[str, Any]:
    """The document of a list: ``{"schema": "midwatch.NAME.v1", "items": [...]}``, items as plain values."""
    from midwatch.model.plain import to_plain

    return {"schema": f"midwatch.{name}.v1", "items": [to_plain(item) for item in items]}


def progress(text: str) -> None:
    """One line for the person who waits, on standard error."""
    sys.stderr.write(f"{visible(text)}\n")
    sys.stderr.flush()
