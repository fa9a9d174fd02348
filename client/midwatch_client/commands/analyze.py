"""`midwatch analyze`: any Kineto trace, offline."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midwatch_client.commands.common import Failure, JsonFlag, console, print_json

if TYPE_CHECKING:
    from midwatch_server.diagnosis import Report

LARGE_BYTES = 4_000_000
"""From this size on (as it lies on disk) a person would wonder whether anything happens."""


def analyze(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Kineto traces, .json or .json.gz.")],
    markdown: Annotated[bool, typer.Option("--md", help="Print Markdown, for a ticket.")] = False,
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
    """Say what a PyTorch profiler trace shows: what costs time, where, and what removing it would gain."""
    if json_ and markdown:
        raise Failure("--json and --md exclude each other; choose one of them", 2)
    reports = [analyse(path, untraced_p50, max_memory << 20) for path in files]
    emit(reports, json_=json_, markdown=markdown)


def analyse(path: Path, untraced_p50_ms: float | None = None, memory_bytes: int = 2 << 30) -> Report:
    """Read and judge one trace within ``memory_bytes``. Raises `Failure` with one sentence where it cannot be read."""
    from midwatch.trace import TraceError, summarise
    from midwatch_server.diagnosis import Evidence, Report, diagnose

    if not path.is_file():
        said = f"{path} is no regular file" if path.exists() else f"there is no file {path}"
        raise Failure(f"{said}; give the path of a trace, .json or .json.gz")
    try:
        with reading(path) as progress:
            summary = summarise(path, untraced_p50_ms=untraced_p50_ms, memory_bytes=memory_bytes, progress=progress)
    except TraceError as error:
        raise Failure(str(error)) from None
    return Report(diagnose(Evidence(summary=summary, workload=summary.workload)), summary=summary, file=str(path))


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Callable[[int, int], None] | None]:
    """Show on a terminal how far the reading of a large file is; say nothing anywhere else."""
    if not sys.stderr.isatty() or path.stat().st_size < LARGE_BYTES:
        yield None
        return
    from midwatch_server.diagnosis import words
    from rich.console import Console

    with Console(stderr=True).status(f"reading {path.name}") as status:
        yield lambda done, total: status.update(
            f"reading {path.name}: {100 * done // max(total, 1)} % of {words.size(total)}"
        )


def emit(reports: list[Report], *, json_: bool, markdown: bool) -> None:
    """Print the reports on standard output: one JSON document, Markdown, or text for a terminal."""
    if json_:
        from midwatch_server.diagnosis import documents

        print_json(documents(reports))
    elif markdown:
        from midwatch_client.render.markdown import to_markdown

        sys.stdout.write("\n".join(to_markdown(report) for report in reports))
    else:
        from midwatch_client.render.terminal import print_report

        out = console()
        for number, report in enumerate(reports):
            if number:
                out.rule()
            print_report(report, out)
