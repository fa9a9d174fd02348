"""Tables and paragraphs that terminal and Markdown outputs share."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

CONTROL = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160), *range(8234, 8239)), "�")
"""What steers a terminal, or turns text around, has no business in a name."""


def printable(text: str) -> str:
    """Return ``text`` with what steers terminals replaced."""
    return text.translate(CONTROL)


def grid(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    width: int,
    *,
    left: Collection[int] = (0,),
    styles: Mapping[str, str] | None = None,
) -> Table:
    """Return a table; columns but those in ``left`` are figures, and ``styles`` colours cells of the last column."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", width=width)
    for position, name in enumerate(head):
        table.add_column(name, justify="left" if position in left else "right", overflow="fold")
    for row in rows:
        *cells, last = map(printable, row)
        table.add_row(*map(Text, cells), Text(last, style=(styles or {}).get(last, "")))
    return table


def markdown_grid(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[int] = (0,)) -> Iterator[str]:
    """Yield the lines of the same table in Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' if position in left else '---:' for position in range(len(head)))} |"
    for row in rows:
        yield f"| {' | '.join(map(escaped, row))} |"


def escaped(text: str) -> str:
    """Keep a name from a trace from being read as HTML, as a cell of a table, or as emphasis."""
    text = printable(text).replace("\n", " ")
    for mark in ("<", "|", "*"):
        text = text.replace(mark, f"\\{mark}")
    return text


def lines(
    console: Console, texts: Iterable[str], width: int, *, style: str = "", indent: int = 0, hang: int = 0
) -> None:
    """Print paragraphs; words, and with them ``file:line``, are never broken."""
    for text in texts:
        filled = textwrap.wrap(
            printable(text),
            width - indent,
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in filled:
            console.print(Text(" " * indent + line, style=style), soft_wrap=True)
