"""`midwatch diff`: what changed between two captures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midwatch_client.commands.common import DEFAULT_COLLECTOR, CollectorOption, Failure, JsonFlag, console, print_json

if TYPE_CHECKING:
    from midwatch_server.diagnosis import Report
    from midwatch_server.diagnosis.diff import Diff

TRACES = (".json", ".json.gz", ".gz")


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="The capture before: a trace file, or an id.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The capture after: a trace file, or an id.")],
    markdown: Annotated[bool, typer.Option("--md", help="Print Markdown, for a pull request.")] = False,
    collector: CollectorOption = DEFAULT_COLLECTOR,
    json_: JsonFlag = False,
) -> None:
    """Say what changed between two captures: by how much a request is faster or slower, and what did it.

    Each is a Kineto trace (.json or .json.gz) or the id of a capture or incident of the collector. A difference counts
    only where it is larger than the spread of the requests in the two windows.
    """
    if json_ and markdown:
        raise Failure("--json and --md exclude each other; choose one of them", 2)
    reports = [report_of(name, collector) for name in (before, after)]
    emit(compared(*reports, labels=(before, after)), json_=json_, markdown=markdown)


def report_of(name: str, collector: str) -> Report:
    """Return the report of a trace file, or of what the collector knows by that id. Raises `Failure` for neither."""
    path = Path(name)
    if path.exists() or "/" in name or name.endswith(TRACES):
        from midwatch_client.offline import analyse

        return analyse(path)
    from midwatch_client.api import Client
    from midwatch_client.commands.show import find
    from midwatch_client.render.sources import of_capture

    with Client(collector) as client:
        report = find(client, name)
        if report.incident is not None and report.capture is not None:
            return of_capture(client.capture(report.capture.capture_id))  # all that was found in it, not this alone
        return report


def compared(before: Report, after: Report, *, labels: tuple[str, str]) -> Diff:
    """Compare two reports. Raises `Failure` where one of them has no window."""
    from midwatch_server.diagnosis.diff import compare

    try:
        return compare(before, after, labels=labels)
    except ValueError as error:
        raise Failure(str(error)) from None


def emit(found: Diff, *, json_: bool, markdown: bool) -> None:
    """Print a comparison on standard output: one JSON document, Markdown, or text for a terminal."""
    if json_:
        from midwatch_server.diagnosis.diff import diff_document

        print_json(diff_document(found))
    elif markdown:
        from midwatch_client.render.diff import diff_markdown

        sys.stdout.write(diff_markdown(found))
    else:
        from midwatch_client.render.diff import print_diff

        print_diff(found, console())
