"""`midwatch incidents`: what happened, the latest first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from midwatch_client.commands.common import (
    DEFAULT_COLLECTOR,
    CollectorOption,
    Failure,
    JsonFlag,
    console,
    listing,
    print_json,
)

if TYPE_CHECKING:
    from midwatch.model.finding import Kind

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def incidents(
    service: Annotated[str, typer.Option("--service", help="Only incidents of this service.")] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Only those seen in the last 30m, 2h, 7d, …")
    ] = "",
    kind: Annotated[str, typer.Option("--kind", help="Only those of this kind, such as gc_pause.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    collector: CollectorOption = DEFAULT_COLLECTOR,
    json_: JsonFlag = False,
) -> None:
    """List incidents, the latest seen first.

    `midwatch show ID` says more about one.
    """
    from midwatch_client.api import Client

    now = time.time_ns()
    since_unix_ns = max(0, now - span_ns(since)) if since else 0
    with Client(collector) as client:
        found = client.incidents(service, kind=parse_kind(kind), since_unix_ns=since_unix_ns, limit=limit)
    if json_:
        print_json(listing("incidents", found))
    elif found:
        from midwatch_client.render.tables import incidents_table

        console().print(incidents_table(found, now))
    else:
        console().print("No incidents." if not (service or since or kind) else "No incidents that match.")


def span_ns(text: str) -> int:
    """Nanoseconds of ``90s``, ``30m``, ``2h``, ``7d`` or ``1w``. Raises `Failure` for anything else."""
    number, unit = text[:-1], text[-1:]
    try:
        return int(float(number) * _UNITS_S[unit] * 1e9)
    except (KeyError, ValueError, OverflowError):
        raise Failure(f"--since takes a number and one of s m h d w, such as 2h, not {text!r}", 2) from None


def parse_kind(text: str) -> Kind | None:
    """The kind called ``text``, None for "". Raises `Failure` for a kind that there is not."""
    from midwatch.model.finding import Kind

    if not text:
        return None
    known = [kind.value for kind in Kind if kind is not Kind.UNKNOWN]
    if text not in known:
        raise Failure(f"there is no kind {text!r}; the kinds are {', '.join(known)}", 2)
    return Kind(text)
