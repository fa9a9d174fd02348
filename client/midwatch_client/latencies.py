"""Tables of latencies as logs and load generators write them, a row a request: read one by one, never held."""

from __future__ import annotations

import contextlib
import csv
import gzip
import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, NoReturn

from midwatch_client.columns import ALONE, WANTED, Column, columns_of
from midwatch_client.errors import Failure
from midwatch_client.moments import PER_UNIT_NS, moment_ns, unit_of
from midwatch_client.opentext import OpenText, TooLongError

MOST_MS = 1e12
"""More than thirty years."""
TOLD_EVERY = 50_000
"""Rows from one word on the progress to the next: a fraction of a second."""
_QUOTED = re.compile(r'"[^"]*"')
_SEPARATORS = (",", ";", "\t")


class Row(NamedTuple):
    """A request. ``ended_ns`` is None where the table has no times; ``time`` is the time as the table writes it."""

    line: int
    latency_ms: float
    route: str = ""
    shape: str = ""
    time: str = ""
    ended_ns: int | None = None


class Table:
    """A table that is being read; its ``columns`` are known from the start.

    Args:
        source: the open file.
        progress: is told now and then how many rows were read, and which share of the file, None where not known.

    Raises:
        Failure: What is there cannot be read as latencies. `rows` may raise it, too.
    """

    def __init__(self, source: OpenText, progress: Callable[[int, float | None], None] | None = None) -> None:
        self.name = source.name
        self._source = source
        self._progress = progress
        self._line = 0
        self._lines = source.lines()
        with self._readable():
            first = self._first_line()
            bare = _QUOTED.sub("", first)
            self._separator = max(_SEPARATORS, key=bare.count)
            cells = next(csv.reader([first], delimiter=self._separator))
        self._width = len(cells)
        named = columns_of(cells)
        if named is None and (self._width > 1 or not _is_number(cells[0])):
            self._fail("no column here is named as a latency", f"name the columns in the first line, such as {WANTED}")
        self.columns = named or ALONE
        self._pending = () if named else (first,)
        self._before = self._line - len(self._pending)
        self._to_ms = PER_UNIT_NS[self.columns.latency.unit] / 1e6
        self._time_unit = self.columns.moment.unit if self.columns.moment is not None else ""

    def rows(self) -> Iterator[Row]:
        """Yield the requests in the order of the table, once; rows of nothing but empty cells are left out."""
        lines = itertools.chain(self._pending, self._lines)
        reader = csv.reader(lines, delimiter=self._separator, skipinitialspace=True, strict=True)
        at = self.columns.latency.at
        alone = all(one is None for one in (self.columns.moment, self.columns.route, self.columns.shape))
        with self._readable():
            for cells in reader:
                self._line = self._before + reader.line_num
                if self._progress is not None and self._line % TOLD_EVERY == 0:
                    self._progress(self._line, self._source.share())
                if not any(map(str.strip, cells)):
                    continue
                if len(cells) > self._width and any(cells[self._width :]):
                    many = f"{len(cells)} columns where there should be {self._width}"
                    self._fail(many, "put text that holds the separator in quotes")
                latency_ms = self._latency(cells[at] if at < len(cells) else "")
                yield Row(self._line, latency_ms) if alone else self._whole(latency_ms, cells)

    def _whole(self, latency_ms: float, cells: Sequence[str]) -> Row:
        route, shape = self._text(self.columns.route, cells), self._text(self.columns.shape, cells)
        if self.columns.moment is None:
            return Row(self._line, latency_ms, route, shape)
        time = self._text(self.columns.moment, cells)
        ended_ns = self._moment(time)
        if self.columns.ended is None:
            ended_ns += int(latency_ms * 1e6)
        return Row(self._line, latency_ms, route, shape, time, ended_ns)

    def _text(self, column: Column | None, cells: Sequence[str]) -> str:
        return cells[column.at].strip() if column is not None and column.at < len(cells) else ""

    def _latency(self, text: str) -> float:
        try:
            # In a table whose separator is no comma a comma can be that of a decimal.
            number = float(text if self._separator == "," else text.replace(",", "."))
        except ValueError:
            what = f"the latency {text.strip()[:40]!r} is no number" if text.strip() else "the latency is missing"
            self._fail(what, "correct or remove the row")
        latency_ms = number * self._to_ms
        if not 0 <= latency_ms <= MOST_MS:
            remedy = "look at the unit in its name" if number > MOST_MS else "correct or remove the row"
            self._fail(f"the latency {text.strip()[:40]} cannot be true", remedy)
        return latency_ms

    def _moment(self, text: str) -> int:
        try:
            if not self._time_unit:
                self._time_unit = unit_of(text)  # of the first one, and with it of all
            return moment_ns(text, self._time_unit)
        except ValueError:
            what = f"the time {text[:40]!r} cannot be read" if text else "the time is missing"
            self._fail(what, "write all of them as numbers or as 2026-01-31T23:59:59.5Z")

    def _first_line(self) -> str:
        for line in self._lines:
            self._line += 1
            if line.strip():
                return line
        raise Failure(f"{self.name} holds no latencies; give a CSV with a row for each request")

    def _fail(self, what: str, remedy: str) -> NoReturn:
        raise Failure(f"{self.name}, line {self._line}: {what}; {remedy}")

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """Say in a sentence what keeps the next line from being read."""
        try:
            yield
        except (csv.Error, TooLongError):
            self._line += 1
            self._fail("this is no row of a table", "look for a quotation mark that is not closed, or for binary data")
        except (EOFError, gzip.BadGzipFile, zlib.error):
            self._fail("after it the compressed file is damaged or cut short", "copy it again")
        except OSError as error:
            raise Failure(f"cannot read {self.name} ({error.strerror}); give another file") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
