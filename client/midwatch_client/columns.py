"""Which column of a table of latencies is what, by the names above them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_UNITS = {
    "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "ms": "ms", "msec": "ms", "millis": "ms", "milliseconds": "ms",
    "us": "us", "micros": "us", "microseconds": "us",
    "ns": "ns", "nanos": "ns", "nanoseconds": "ns",
}  # fmt: skip
_UNIT = re.compile(rf"_?({'|'.join(sorted(_UNITS, key=len, reverse=True))})")
_LATENCIES = ("latency", "duration", "elapsed", "took", "response_time", "request_time")
_BARE = ("latency", "duration", "elapsed", "took")
"""Without a unit they are milliseconds. ``request_time`` and its like are not: some servers mean seconds by it."""
_ENDS = ("time", "timestamp", "ts", "end", "ended", "end_time", "ended_at", "date", "datetime")
_STARTS = ("start", "started", "start_time", "started_at", "begin")
_ROUTES = ("route", "endpoint", "path", "label")
_SHAPES = ("shape", "workload")
WANTED = "latency_ms, duration_ms, ms or seconds"


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its number from 0 on and its name as written; ``unit`` is "" where it has none or names none."""

    at: int
    name: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Columns:
    """What a table has. Of ``ended`` and ``started`` there is at most one, ``ended`` where there are both."""

    latency: Column
    ended: Column | None = None
    started: Column | None = None
    route: Column | None = None
    shape: Column | None = None

    @property
    def moment(self) -> Column | None:
        """The column of times, whichever end of the request it tells."""
        return self.ended or self.started


ALONE = Columns(Column(0, "", "ms"))
"""A column of numbers and nothing above it."""


def columns_of(names: Sequence[str]) -> Columns | None:
    """Return which column is what; of several that would do, the first. None where none of them is a latency."""
    plain = [re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") for name in names]
    latency = _measured(names, plain, _LATENCIES, bare=_BARE) or _bare_unit(names, plain)
    if latency is None:
        return None
    ended = _measured(names, plain, _ENDS, bare=_ENDS, unit="")
    started = None if ended else _measured(names, plain, _STARTS, bare=_STARTS, unit="")
    return Columns(latency, ended, started, _named(names, plain, _ROUTES), _named(names, plain, _SHAPES))


def _measured(
    names: Sequence[str], plain: Sequence[str], words: Sequence[str], *, bare: Sequence[str], unit: str = "ms"
) -> Column | None:
    """Return the first that is one of ``words`` with a unit behind it, or one of ``bare``, which has ``unit``."""
    for at, name in enumerate(plain):
        if name in bare:
            return Column(at, names[at].strip(), unit)
        for word in words:
            match = _UNIT.fullmatch(name, len(word)) if name.startswith(word) else None
            if match is not None and name[len(word)] == "_":
                return Column(at, names[at].strip(), _UNITS[match[1]])
    return None


def _bare_unit(names: Sequence[str], plain: Sequence[str]) -> Column | None:
    return next((Column(at, names[at].strip(), _UNITS[name]) for at, name in enumerate(plain) if name in _UNITS), None)


def _named(names: Sequence[str], plain: Sequence[str], words: Sequence[str]) -> Column | None:
    return next((Column(at, names[at].strip()) for at, name in enumerate(plain) if name in words), None)
