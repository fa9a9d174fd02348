"""A comparison for a person at a terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from midwatch_server.diagnosis.diff import Diff
from rich.console import Console

from midwatch_client.console import line
from midwatch_client.render import diffrows
from midwatch_client.render.grid import escaped, grid, lines, markdown_grid

MAX_WIDTH = 110
STYLES = {"less": "green", "gone": "green", "more": "red", "new": "red", "same": "dim"}


def print_diff(diff: Diff, console: Console) -> None:
    """Print the answer, then what it stands on."""
    width = min(console.width, MAX_WIDTH)
    lines(console, [diff.answer[0]], width, style="bold")
    lines(console, diff.answer[1:], width)
    console.print()
    for name, facts in (("A", diff.a), ("B", diff.b)):
        console.print(line((f"{name}  {facts.label}", "dim")), soft_wrap=True)
        lines(console, [diffrows.side(facts, diff.noun)], width, style="dim", indent=3)
    for title, texts in _sections(diff):
        console.print()
        console.print(line((title, "bold")))
        lines(console, [f"- {text}" for text in texts], width, indent=3, hang=2)
    for head, rows in _tables(diff):
        console.print()
        console.print(grid(head, rows, width, left=(0, len(head) - 1), styles=STYLES))
    lines(console, _unchanged(diff), width, style="dim")


def diff_markdown(diff: Diff) -> str:
    """Return ``diff`` as one Markdown text."""
    text = [f"**{escaped(diff.answer[0])}**", ""]
    for sentence in diff.answer[1:]:
        text += [escaped(sentence), ""]
    for name, facts in (("A", diff.a), ("B", diff.b)):
        text.append(f"- {name}: {escaped(facts.label)}, {escaped(diffrows.side(facts, diff.noun))}")
    for title, texts in _sections(diff):
        text += ["", f"### {title}", "", *(f"- {escaped(text)}" for text in texts)]
    for head, rows in _tables(diff):
        text += ["", *markdown_grid(head, rows, left=(0, len(head) - 1))]
    for sentence in _unchanged(diff):
        text += ["", escaped(sentence)]
    return "\n".join(text) + "\n"


def _sections(diff: Diff) -> list[tuple[str, list[str]]]:
    remarks = [remark.text[:1].upper() + remark.text[1:] for remark in diff.comparability.remarks]
    findings = [diffrows.finding_line(named) for named in diff.findings]
    both = [(diffrows.VERDICTS[diff.comparability.verdict], remarks), ("Findings", findings)]
    return [(title, texts) for title, texts in both if texts]


def _tables(diff: Diff) -> list[tuple[tuple[str, ...], Sequence[tuple[str, ...]]]]:
    figures = (f"per {diff.noun}", "A", "B", "B - A", ""), list(diffrows.figure_rows(diff))
    changes = (f"in a {diff.noun} that has it", "A", "B", ""), list(diffrows.change_rows(diff))
    return [table for table in (figures, changes) if table[1]]


def _unchanged(diff: Diff) -> list[str]:
    same = diffrows.unchanged(diff)
    return [f"Did not change: {same}."] if same else []
