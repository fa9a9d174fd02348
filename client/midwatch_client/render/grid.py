"""Tables and paragraphs that terminal and Markdown outputs share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from midwatch_server.visible import visible
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from midwatch_client.console import Cell, line

_CODE = re.compile(r"((?<!`)`[^`]+`(?!`))")
_READ = re.compile(r"[\\`*<\[|&~]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown reads: links and images, HTML and entities, emphasis, cells. Inside a word an underscore is one."""


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
        table.add_column(name, justify="left" if position in left else "right")
    for row in rows:
        *cells, last = row
        table.add_row(*map(Cell, cells), Cell(last, (styles or {}).get(last, "")))
    return table


def markdown_grid(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[int] = (0,)) -> Iterator[str]:
    """Yield the lines of the same table in Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' if position in left else '---:' for position in range(len(head)))} |"
    for row in rows:
        yield f"| {' | '.join(escaped(one, cell=True) for one in row)} |"


def escaped(text: str, *, cell: bool = False) -> str:
    """Keep a name from a trace from being read as Markdown or HTML, or as the end of a ``cell``; code stays code."""
    pieces = _CODE.split(visible(text))
    for at, piece in enumerate(pieces):
        if at % 2 == 0:
            pieces[at] = _READ.sub(r"\\\g<0>", piece)
        elif cell:  # the one thing that a backslash takes the meaning from in code, too
            pieces[at] = piece.replace("|", r"\|")
    return "".join(pieces)


def lines(
    console: Console, texts: Iterable[str], width: int, *, style: str = "", indent: int = 0, hang: int = 0
) -> None:
    """Print paragraphs; words, and with them ``file:line``, are never broken."""
    for text in texts:
        filled = textwrap.wrap(
            visible(text),
            width - indent,
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for one in filled:
            console.print(line((" " * indent + one, style)), soft_wrap=True)
