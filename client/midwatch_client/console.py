"""The one way by which text enters the terminal: it is made visible, and never read as markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from midwatch_server.visible import visible
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, HighlighterType, JustifyMethod, OverflowMethod
from rich.measure import Measurement
from rich.style import Style
from rich.text import Text

_PLACE = re.compile(r"[^\s:]+:\d+\W*")
"""``(app/metrics.py:41)``: what tells a place is its end."""


class PlainConsole(Console):
    """A console for which every ``str``, printed or in a table, is text alone."""

    def __init__(self, file: IO[str], width: int | None = None) -> None:
        super().__init__(file=file, width=width, highlight=False, markup=False, emoji=False)

    def render_str(
        self,
        text: str,
        *,
        style: str | Style = "",
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        emoji: bool | None = None,  # noqa: ARG002  # neither of these is wanted in a name
        markup: bool | None = None,  # noqa: ARG002
        highlight: bool | None = None,  # noqa: ARG002
        highlighter: HighlighterType | None = None,  # noqa: ARG002
    ) -> Text:
        """Return ``text`` as it is, made visible."""
        return Text(visible(text), style=style, justify=justify, overflow=overflow)


class Cell:
    """Text in a column of a table: broken between words, and where a place is too long, its path is cut on the left."""

    def __init__(self, text: str, style: str = "") -> None:
        self._words = visible(text).split()
        self._style = style

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Say how narrow and how wide it can be."""
        least = max((cell_len(word) for word in self._words), default=0)
        return Measurement(least, cell_len(" ".join(self._words))).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Draw it into the width that there is."""
        words = (shortened(word, options.max_width) for word in self._words)
        yield Text(" ".join(words), style=self._style, overflow="fold")


def line(*parts: tuple[str, str]) -> Text:
    """Return a line of texts, each with its style."""
    return Text.assemble(*((visible(text), style) for text, style in parts))


def shortened(word: str, width: int) -> str:
    """Return a place (``path/file.py:41``) in at most ``width`` columns, cut on the left; any other word as it is."""
    if cell_len(word) <= width or not _PLACE.fullmatch(word):
        return word
    parts = word.split("/")
    for first in range(1, len(parts)):
        kept = "…/" + "/".join(parts[first:])
        if cell_len(kept) <= width:
            return kept
    kept = parts[-1]
    while kept and cell_len(kept) > width - 1:
        kept = kept[1:]
    return f"…{kept}"
