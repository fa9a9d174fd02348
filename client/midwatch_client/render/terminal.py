"""A report for a person at a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from midwatch.model.finding import Finding, Verdict
from midwatch.model.trace import TraceSummary
from midwatch_server.diagnosis import Report
from midwatch_server.diagnosis.words import ms
from midwatch_server.visible import visible
from rich.console import Console
from rich.text import Text

from midwatch_client.console import line
from midwatch_client.render import wording
from midwatch_client.render.timeline import timeline_lines

MAX_WIDTH = 110
INDENT = 3
LABEL = 10
OCCURRENCES = 8
VERDICT_STYLES = {Verdict.FINDINGS: "bold red", Verdict.CLEAN: "bold green", Verdict.INSUFFICIENT_DATA: "bold yellow"}
LANE_STYLES = {
    "request": "bold",
    "host": "cyan",
    "python": "blue",
    "blocked": "dim",
    "gc": "red",
    "wait": "yellow",
    "device": "green",
    "copy": "magenta",
}


def print_report(report: Report, console: Console) -> None:
    """Print ``report`` on ``console``, no wider than is good to read; colours where the console has them."""
    unicode = "utf" in console.encoding.lower()
    for one in report_lines(report, min(console.width, MAX_WIDTH), unicode=unicode):
        console.print(one, soft_wrap=True)


def report_lines(report: Report, width: int, *, unicode: bool = True) -> Iterator[Text]:
    """Yield the lines that `print_report` prints. Words, and with them ``file:line``, are never broken."""
    yield from _wrapped(wording.heading(report), width, style="bold")
    for label, text in wording.facts(report):
        yield from _labelled(label, text, width)
    yield line()
    yield from _wrapped(wording.verdict(report), width, style=VERDICT_STYLES.get(report.diagnosis.verdict, "bold"))
    for number, finding in enumerate(report.diagnosis.findings, 1):
        yield line()
        yield from _finding(number, finding, report, width)
    notes = [wording.note(note) for note in report.diagnosis.notes]
    yield from _section("Also seen, but not the cause", notes, width)
    if report.summary is not None:
        yield from _timeline(report.summary, width, unicode=unicode)
    yield from _section("About the figures", [caveat.text for caveat in report.diagnosis.caveats], width)
    if len(report.occurrences) > 1:
        yield from _section("Latest occurrences", _occurrences(report), width)


def _finding(number: int, finding: Finding, report: Report, width: int) -> Iterator[Text]:
    yield from _wrapped(f"{number}. {finding.kind.value}: {finding.title}", width, style="bold", hang=INDENT)
    for label, text in (
        ("where", wording.where(finding.site)),
        ("held by", wording.where(finding.related_site)),
        ("costs", wording.costs(finding, report)),
        ("gain", wording.gains(finding, report)),
    ):
        if text:
            yield from _labelled(label, text, width)
    for position, text in enumerate(finding.evidence):
        yield from _labelled("" if position else "evidence", f"- {text}", width, hang=2)
    for position, advice in enumerate(finding.advice):
        yield from _labelled("or" if position else "try", advice.change, width)
        yield from _labelled("", advice.reason, width, style="dim")
    if finding.advice:
        yield from _labelled("measure", finding.advice[0].measure, width)
    if wording.graph(finding):
        yield from _labelled("graph", wording.graph(finding), width)
    for position, text in enumerate(finding.caveats):
        yield from _labelled("" if position else "but", f"- {text}", width, hang=2)


def _timeline(summary: TraceSummary, width: int, *, unicode: bool) -> Iterator[Text]:
    lines = timeline_lines(summary.timeline, width - INDENT, unicode=unicode)
    if not lines:
        return
    yield line()
    yield from _wrapped(wording.timeline_heading(summary), width, style="bold")
    for lane, drawn in lines:
        yield line((" " * INDENT + drawn, LANE_STYLES.get(lane.kind, "") if lane else "dim"))


def _occurrences(report: Report) -> Iterator[str]:
    for occurrence in report.occurrences[:OCCURRENCES]:
        seen_in = occurrence.capture_id or occurrence.spike_id
        yield f"{wording.when(occurrence.unix_ns)}  {ms(occurrence.finding.per_request_ms)}  {seen_in}"


def _section(title: str, texts: Iterable[str], width: int) -> Iterator[Text]:
    listed = list(texts)
    if not listed:
        return
    yield line()
    yield line((title, "bold"))
    for text in listed:
        yield from _wrapped(f"- {text}", width, indent=INDENT, hang=2)


def _labelled(label: str, text: str, width: int, *, style: str = "", hang: int = 0) -> Iterator[Text]:
    """Yield ``text`` in its column, with ``label`` before its first line."""
    lines = _fill(text, width - INDENT - LABEL, hang)
    for position, one in enumerate(lines):
        before = f"{label if position == 0 else '':<{LABEL}}"
        yield line((" " * INDENT + before, "dim"), (one, style))


def _wrapped(text: str, width: int, *, style: str = "", indent: int = 0, hang: int = 0) -> Iterator[Text]:
    for one in _fill(text, width - indent, hang):
        yield line((" " * indent + one, style))


def _fill(text: str, width: int, hang: int) -> list[str]:
    return textwrap.wrap(
        visible(text), max(width, 20), subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    )
