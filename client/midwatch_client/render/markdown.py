"""A report as Markdown, for a ticket or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable

from midwatch.model.finding import Finding
from midwatch_server.diagnosis import Report
from midwatch_server.visible import visible

from midwatch_client.render import wording
from midwatch_client.render.grid import escaped
from midwatch_client.render.timeline import timeline_lines

WIDTH = 88
_BACKTICKS = re.compile("`+")


def to_markdown(report: Report) -> str:
    """Return ``report`` as one Markdown text."""
    lines = [f"## {escaped(wording.heading(report))}", ""]
    lines += [f"- {label}: {escaped(text)}" for label, text in wording.facts(report)]
    lines += ["", f"**{escaped(wording.verdict(report))}**"]
    for number, finding in enumerate(report.diagnosis.findings, 1):
        lines += ["", *_finding(number, finding, report)]
    if report.diagnosis.notes:
        lines += ["", "### Also seen, but not the cause", ""]
        lines += [f"- {escaped(wording.note(note))}" for note in report.diagnosis.notes]
    if report.summary is not None:
        drawn = timeline_lines(report.summary.timeline, WIDTH)
        if drawn:
            lines += ["", f"### {wording.timeline_heading(report.summary)}", "", *_fenced(line for _, line in drawn)]
    if report.diagnosis.caveats:
        lines += ["", "### About the figures", ""]
        lines += [f"- {escaped(caveat.text)}" for caveat in report.diagnosis.caveats]
    return "\n".join(lines) + "\n"


def _fenced(drawn: Iterable[str]) -> list[str]:
    """Return lines as a block of code that none of them can end."""
    lines = [visible(line) for line in drawn]
    longest = max((len(run) for line in lines for run in _BACKTICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]


def _finding(number: int, finding: Finding, report: Report) -> Iterable[str]:
    yield f"### {number}. {finding.kind.value}: {escaped(finding.title)}"
    yield ""
    for label, text in (
        ("where", wording.where(finding.site)),
        ("held by", wording.where(finding.related_site)),
        ("costs", wording.costs(finding, report)),
        ("gain", wording.gains(finding, report)),
        ("CUDA graph", wording.graph(finding)),
    ):
        if text:
            yield f"- **{label}**: {escaped(text)}"
    for text in finding.evidence:
        yield f"- evidence: {escaped(text)}"
    for advice in finding.advice:
        yield f"- **try**: {escaped(f'{advice.change}. Because: {advice.reason}. Then measure: {advice.measure}.')}"
    for text in finding.caveats:
        yield f"- but: {escaped(text)}"
