"""The facts behind a report as tables that are folded away: kernels, waits, gaps, copies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from midwatch.model.site import Site
from midwatch.model.trace import TraceSummary
from midwatch_server.diagnosis.words import ms, percent, place, size

from midwatch_client.render.markup import Markup, el

MOST = 12


def facts_tables(summary: TraceSummary) -> Iterator[Markup]:
    """Yield one folded table of each kind of facts that there are."""
    yield from _folded(
        "Kernels, the longest first",
        ("kernel", "family", "count", "total", "median", "of the device", "operator", "type"),
        [
            (k.name, k.family, f"{k.count:,}", ms(k.total_ms), ms(k.median_us / 1e3), percent(k.share), k.op, k.dtype)
            for k in summary.kernels
        ],
        left=(0, 1, 6, 7),
    )
    yield from _folded(
        "Waits of the host for the device",
        ("call", "where", "count", "total", "longest", "per request", "without them"),
        [
            (
                w.api,
                _at(w.site),
                f"{w.count:,}",
                ms(w.total_ms),
                ms(w.max_ms),
                ms(w.per_request_ms),
                _less(w.recoverable_ms),
            )
            for w in summary.waits
        ],
        left=(0, 1),
    )
    yield from _folded(
        "Stretches in which the model's work stood still",
        ("host", "where", "count", "total", "longest", "per request", "without them"),
        [
            (
                g.host,
                _at(g.site),
                f"{g.count:,}",
                ms(g.total_ms),
                ms(g.max_ms),
                ms(g.per_request_ms),
                _less(g.recoverable_ms),
            )
            for g in summary.gaps
        ],
        left=(0, 1),
    )
    yield from _folded(
        "Copies",
        ("direction", "memory", "where", "count", "size", "on the device", "in calls of the host"),
        [
            (c.direction, c.memory, _at(c.site), f"{c.count:,}", size(c.bytes), ms(c.device_ms), ms(c.host_ms))
            for c in summary.copies
        ],
        left=(0, 1, 2),
    )


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> Markup:
    """Return a table in a frame of its own that scrolls by keyboard, too; columns but ``left`` are figures."""
    classes = [None if position in left else "number" for position in range(len(head))]
    top = el("tr", *(el("th", name, scope="col", class_=c) for name, c in zip(head, classes, strict=True)))
    body = [
        el(
            "tr",
            el("th", row[0], scope="row"),
            *(el("td", cell, class_=c) for cell, c in zip(row[1:], classes[1:], strict=True)),
        )
        for row in rows
    ]
    whole = el("table", el("caption", caption), el("thead", top), el("tbody", *body))
    return el("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _folded(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int]
) -> Iterator[Markup]:
    if rows:
        more = f" ({MOST} of {len(rows)})" if len(rows) > MOST else ""
        yield el("details", el("summary", f"{caption}{more}"), table(caption, head, rows[:MOST], left=left))


def _at(site: Site | None) -> str:
    return place(site) if site is not None else ""


def _less(gain_ms: float) -> str:
    return f"-{ms(gain_ms)}" if gain_ms else "0 ms"
