"""`midwatch analyze`: any Kineto trace, offline; several, or the ranks of a job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midwatch_client.commands.common import Failure, JsonFlag, console, print_json, progress

if TYPE_CHECKING:
    from midwatch_client.offline import Analysed


def analyze(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Kineto traces, .json or .json.gz, or folders of them.")
    ],
    markdown: Annotated[bool, typer.Option("--md", help="Print Markdown, for a ticket.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write one page that needs no network, with the timeline drawn."),
    ] = None,
    untraced_p50: Annotated[
        float | None,
        typer.Option(
            "--untraced-p50", min=0.001, metavar="MS", help="The median latency without a profiler, if known."
        ),
    ] = None,
    max_memory: Annotated[
        int,
        typer.Option(
            "--max-memory", min=128, metavar="MIB", help="Most memory; a trace that needs more is cut in time."
        ),
    ] = 2048,
    json_: JsonFlag = False,
) -> None:
    """Say what a PyTorch profiler trace shows: what costs time, where, and what removing it would gain.

    Several traces give one report each. Traces of the ranks of one job, such as a folder of them, are also set beside
    each other: the rank that arrives last in the collectives is named, with how long the others wait for it.
    """
    if json_ and markdown:
        raise Failure("--json and --md exclude each other; choose one of them", 2)
    from midwatch_client.offline import analyse_all

    found = analyse_all(files, untraced_p50, max_memory << 20)
    if html is not None:
        from midwatch_client.pages import save_page

        save_page(html, found.reports, found.world)
    if json_ or markdown or html is None:
        emit(found, json_=json_, markdown=markdown)
    complain(found)


def emit(found: Analysed, *, json_: bool, markdown: bool) -> None:
    """Print the reports on standard output: one JSON document, Markdown, or text for a terminal."""
    if json_:
        print_json(document_of(found))
    elif markdown:
        from midwatch_client.render.markdown import to_markdown
        from midwatch_client.render.ranks import shown, world_markdown

        parts = [world_markdown(found.world, found.reports)] if found.world is not None else []
        sys.stdout.write("\n".join([*parts, *(to_markdown(report) for report in shown(found.world, found.reports))]))
    else:
        from midwatch_client.render.ranks import print_world, shown
        from midwatch_client.render.terminal import print_report

        out = console()
        if found.world is not None:
            print_world(found.world, found.reports, out)
        for number, report in enumerate(shown(found.world, found.reports)):
            if number or found.world is not None:
                out.rule()
            print_report(report, out)


def document_of(found: Analysed) -> dict[str, Any]:
    """Return the JSON document: the report itself for one file, else all of them under ``reports``."""
    from midwatch_server.diagnosis import document
    from midwatch_server.diagnosis.ranks import ranks_document
    from midwatch_server.diagnosis.report import SCHEMA

    if not found.several:
        return document(found.reports[0])
    return {
        "schema": SCHEMA,
        "reports": [document(report) for report in found.reports],
        "ranks": ranks_document(found.world) if found.world is not None else None,
        "unread": [{"file": str(one.path), "reason": one.reason} for one in found.unread],
    }


def complain(found: Analysed) -> None:
    """Say on standard error what could not be read; raise `Failure` if a file that was asked for is among it."""
    for one in found.unread:
        if not one.asked:
            progress(f"midwatch: left out {one.path.name}: {one.reason}")
    asked = [one.reason for one in found.unread if one.asked]
    for reason in asked[:-1]:
        progress(f"midwatch: {reason}")
    if asked:
        raise Failure(asked[-1])
