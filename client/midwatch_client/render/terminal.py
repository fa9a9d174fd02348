"""A report for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Finding, Verdict
from midwatch.model.trace import Timeline
from midwatch_server.diagnosis import Report
from midwatch_server.diagnosis.words import ms
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from midwatch_client.render import wording
from midwatch_client.render.timeline import timeline_lines

MAX_WIDTH = 110
VERDICT_STYLES = {Verdict.FINDINGS: "bold red", Verdict.CLEAN: "bold green", Verdict.INSUFFICIENT_DATA: "bold yellow"}
LANE_STYLES = {"request": "bold", "host": "cyan", "wait": "yellow", "device": "green", "copy": "magenta"}


def print_report(report: Report, console: Console) -> None:
    """Print ``report`` on ``console``, no wider than is good to read."""
    width = min(console.width, MAX_WIDTH)
    unicode = "utf" in console.encoding.lower()
    console.print(report_view(report, width, unicode=unicode), width=width)


def report_view(report: Report, width: int, *, unicode: bool = True) -> RenderableType:
    """Return what `print_report` prints."""
    parts: list[RenderableType] = [Text(wording.heading(report), style="bold")]
    facts = wording.facts(report)
    if facts:
        parts.append(_indented(_grid(facts)))
    parts += ["", Text(wording.verdict(report), style=VERDICT_STYLES[report.diagnosis.verdict])]
    for number, finding in enumerate(report.diagnosis.findings, 1):
        parts += ["", _finding(number, finding, report)]
    if report.diagnosis.notes:
        parts += ["", Text("Seen, but a change there would gain next to nothing", style="bold")]
        parts.append(_indented(_bullets(_note(note) for note in report.diagnosis.notes)))
    if report.summary is not None:
        parts += _timeline(report.summary.timeline, width, unicode=unicode)
    if report.diagnosis.caveats:
        parts += ["", Text("About the figures", style="bold")]
        parts.append(_indented(_bullets(caveat.text for caveat in report.diagnosis.caveats)))
    if len(report.occurrences) > 1:
        parts += ["", Text("Latest occurrences", style="bold"), _indented(_occurrences(report))]
    return Group(*parts)


def _finding(number: int, finding: Finding, report: Report) -> RenderableType:
    title = Text.assemble((f"{number}. {finding.kind.value}", "bold red"), "  ", (finding.title, "bold"))
    rows = [
        ("where", wording.where(finding.site)),
        ("held by", wording.where(finding.related_site)),
        ("costs", wording.costs(finding, report)),
        ("gain", wording.gains(finding, report)),
    ]
    table = _grid([row for row in rows if row[1]])
    if finding.evidence:
        table.add_row(Text("evidence", style="dim"), _bullets(finding.evidence))
    for position, advice in enumerate(finding.advice):
        said = Group(Text(advice.change), Text(f"because: {advice.reason}", style="dim"))
        table.add_row(Text("try" if position == 0 else "or", style="dim"), said)
    if finding.advice:
        table.add_row(Text("measure", style="dim"), Text(finding.advice[0].measure))
    if wording.graph(finding):
        table.add_row(Text("CUDA graph", style="dim"), Text(wording.graph(finding)))
    if finding.caveats:
        table.add_row(Text("but", style="dim"), _bullets(finding.caveats))
    return Group(title, _indented(table))


def _note(note: Finding) -> str:
    return f"{note.kind.value}: {note.title}"


def _timeline(timeline: Timeline, width: int, *, unicode: bool) -> list[RenderableType]:
    lines = timeline_lines(timeline, width - 3, unicode=unicode)
    if not lines:
        return []
    drawn = Text("\n").join(
        Text(line, style=LANE_STYLES.get(lane.kind, "") if lane else "dim", no_wrap=True) for lane, line in lines
    )
    return ["", Text(wording.timeline_heading(timeline), style="bold"), _indented(drawn)]


def _occurrences(report: Report) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for occurrence in report.occurrences[:8]:
        table.add_row(
            wording.when(occurrence.unix_ns),
            ms(occurrence.finding.per_request_ms),
            occurrence.capture_id or occurrence.spike_id,
        )
    return table


def _grid(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(Text(label, style="dim"), Text(text))
    return table


def _bullets(texts: Iterable[str]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for text in texts:
        table.add_row("-", Text(text))
    return table


def _indented(renderable: RenderableType) -> Padding:
    return Padding(renderable, (0, 0, 0, 3))
