"""Compare two captures: the composition of all that this package does."""

from __future__ import annotations

from dataclasses import replace

from midwatch_server.diagnosis.diff.altered import altered
from midwatch_server.diagnosis.diff.answer import answer
from midwatch_server.diagnosis.diff.changes import account, changes
from midwatch_server.diagnosis.diff.comparable import comparability
from midwatch_server.diagnosis.diff.figures import figures, slowest, wall
from midwatch_server.diagnosis.diff.named import named
from midwatch_server.diagnosis.diff.side import sides
from midwatch_server.diagnosis.diff.values import Diff
from midwatch_server.diagnosis.report import Report


def compare(a: Report, b: Report, *, labels: tuple[str, str] = ("A", "B")) -> Diff:
    """Say what changed from ``a``, the capture before, to ``b``, the one after.

    Args:
        a: The report of the capture before.
        b: The report of the capture after.
        labels: What the two are called above the table: paths or ids.

    Returns:
        The comparison. Its times are milliseconds of one request, untraced unless a label says otherwise.

    Raises:
        ValueError: One of them has no window; the text is a sentence for people.
    """
    first, second = sides(a, b)
    total = wall(first, second)
    rows = figures(first, second)
    found = changes(first, second, rows)
    shares = account(total, rows, found)
    diff = Diff(
        a=first.facts(labels[0]),
        b=second.facts(labels[1]),
        noun=first.evidence.noun,
        comparability=comparability(first, second),
        changed=altered(first, second, rows, found),
        wall=total,
        slowest=slowest(first, second),
        figures=rows,
        changes=found,
        shares=shares,
        rest_ms=total.delta - sum(share.ms for share in shares) if total.status in ("more", "less") else 0.0,
        findings=named(a, b),
    )
    return replace(diff, answer=answer(diff))
