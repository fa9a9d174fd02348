"""`midwatch show`: one incident, capture or spike, at a glance."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midwatch_client.commands.common import DEFAULT_COLLECTOR, CollectorOption, Failure, JsonFlag, console, print_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from midwatch_server.diagnosis import Report

    from midwatch_client.api import Client


def show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="An incident, a capture or a spike; a prefix will do.")],
    markdown: Annotated[bool, typer.Option("--md", help="Print Markdown, for a ticket.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page that needs no network.")
    ] = None,
    collector: CollectorOption = DEFAULT_COLLECTOR,
    json_: JsonFlag = False,
) -> None:
    """Show one incident, capture or spike at a glance.

    What was slow, where, how much per request, what removing it would gain, the evidence, and what to try.
    """
    from midwatch_client.api import Client

    with Client(collector) as client:
        report = find(client, id_)
    if html is not None:
        from midwatch_client.pages import save_page

        save_page(html, [report])
    if json_ or markdown or html is None:
        emit(report, json_=json_, markdown=markdown)


def find(client: Client, id_: str) -> Report:
    """The report of the incident, else the capture, else the spike that ``id_`` names. Raises `Failure` for none."""
    from midwatch_client.api import NotFoundError
    from midwatch_client.render import sources

    tries: tuple[Callable[[], Report], ...] = (
        lambda: sources.of_incident(client.incident(id_)),
        lambda: sources.of_capture(client.capture(id_)),
        lambda: sources.of_spike(client.spike(id_)),
    )
    for attempt in tries:
        with contextlib.suppress(NotFoundError):
            return attempt()
    raise Failure(f"nothing goes by the id {id_!r}; `midwatch incidents` lists what there is")


def emit(report: Report, *, json_: bool, markdown: bool = False) -> None:
    """Print one report on standard output as JSON, Markdown, or for a terminal."""
    if json_:
        from midwatch_server.diagnosis import document

        print_json(document(report))
    elif markdown:
        from midwatch_client.render.markdown import to_markdown

        sys.stdout.write(to_markdown(report).rstrip("\n") + "\n")
    else:
        from midwatch_client.render.terminal import print_report

        print_report(report, console())
