"""What a comparison says, in words and rows: the part that terminal and Markdown have in common."""

from __future__ import annotations

import math
from collections.abc import Iterator

from midwatch_server.diagnosis.diff import Diff
from midwatch_server.diagnosis.diff.values import Change, Figure, Named, Part, Sample, SideFacts
from midwatch_server.diagnosis.words import HUGE, between, count, ms, percent, plural, size

MOST_CHANGES = 12
SMALL = 0.01
"""Of the request: parts that take less on both sides are counted, not listed."""
VERDICTS = {
    "comparable": "",
    "limited": "To be taken with a grain of salt",
    "not_comparable": "Not like for like",
}
STATUS = {"more": "more", "less": "less", "same": "same", "unknown": ""}
FINDINGS = {"gone": "gone", "new": "new", "kept": "still there"}


def side(facts: SideFacts, noun: str) -> str:
    """Return what stands for one side: ``5 requests of /rank, NVIDIA H200, CUDA 13.0``."""
    of = f" of {facts.route}" if facts.route and facts.basis in ("ledger", "annotation") else ""
    whole = "the whole window" if facts.basis == "window" else f"{plural(facts.requests, noun)}{of}"
    known = (
        whole,
        f"{facts.service} {facts.service_version}".strip(),
        " and ".join(facts.devices),
        f"torch {facts.torch}" if facts.torch else "",
        f"CUDA {facts.cuda}" if facts.cuda else "",
        *facts.inputs[:1],
    )
    return ", ".join(part for part in known if part)


def figure_rows(diff: Diff) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield label, A, B, difference and verdict of each figure."""
    yield _row(diff.wall, diff)
    samples = [sample for sample in (diff.wall.a, diff.wall.b) if sample is not None and sample.count > 1]
    if samples:
        ranges = [between(sample.low, sample.high) for sample in samples]
        yield ("half of them take", *(ranges if len(ranges) == 2 else ("", "")), "", "")
    for figure in (diff.slowest, *diff.figures):
        yield _row(figure, diff)


def _row(figure: Figure, diff: Diff) -> tuple[str, str, str, str, str]:
    label = figure.label.replace("request", diff.noun)
    a, b = (_shown(sample, figure.unit) for sample in (figure.a, figure.b))
    return label, a, b, _difference(figure), STATUS[figure.status]


def change_rows(diff: Diff) -> Iterator[tuple[str, str, str, str]]:
    """Yield what, A, B and status of the parts worth a line, the largest difference first."""
    shown = worth_a_line(diff)
    for change in shown[:MOST_CHANGES]:
        yield change.label, _cost(change.a), _cost(change.b), change.status
    left = len(diff.changes) - len(shown[:MOST_CHANGES])
    if left > 0:
        yield f"{left} smaller one{'s' * (left != 1)}", "", "", ""


def worth_a_line(diff: Diff) -> list[Change]:
    """Return the parts that take at least `SMALL` of the request on one side."""
    usual = max((sample.median for sample in (diff.wall.a, diff.wall.b) if sample is not None), default=0.0)
    return [change for change in diff.changes if _most_ms(change) >= SMALL * usual]


def finding_line(named: Named) -> str:
    """Return one line on a finding of either side."""
    finding = named.b or named.a
    if finding is None:
        return ""
    line = f"{FINDINGS[named.status]}: {finding.kind.value}: {finding.title}"
    if named.a is not None and named.b is not None:
        return f"{line} (would gain {ms(named.b.recoverable_ms)}, before {ms(named.a.recoverable_ms)})"
    return line


def unchanged(diff: Diff) -> str:
    """Return the names of the figures that did not change, "" for none."""
    return ", ".join(figure.label.partition(",")[0] for figure in diff.figures if figure.status == "same")


def _most_ms(change: Change) -> float:
    return max(part.ms for part in (change.a, change.b) if part is not None)


def _shown(sample: Sample | None, unit: str) -> str:
    return "not recorded" if sample is None else _value(sample.median, unit)


def _difference(figure: Figure) -> str:
    if figure.a is None or figure.b is None or not figure.delta:
        return ""
    return f"{'+' if figure.delta > 0 else '-'}{_value(abs(figure.delta), figure.unit)}"


def _value(value: float, unit: str) -> str:
    if unit == "ms":
        return ms(value)
    if unit == "us":
        return f"{value:.1f} us" if abs(value) < HUGE else ms(value)
    return size(value) if unit == "bytes" else count(value)


def _cost(part: Part | None) -> str:
    if part is None:
        return "-"
    rare = f", in {percent(part.share)}" if part.share < 1 else ""
    detail = f", {part.detail}" if part.detail and not part.detail.startswith(("cuda", "hip")) else ""
    many = round(part.count) if 10 <= part.count < math.inf else part.count
    return f"{ms(part.ms)} in {count(many)}{detail}{rare}"
