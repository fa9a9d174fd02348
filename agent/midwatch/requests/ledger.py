"""The ledger: the last few thousand requests and units, for spikes and windows to look up."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from midwatch.requests import tracker, units
from midwatch.requests.tracker import Mark
from midwatch.requests.units import Unit

_MAX = 8_192
_SLACK_NS = 100_000_000
"""Ends come nearly in order: threads append a moment after they have looked at the clock."""
_TIMES = ("start_ns", "end_ns")
_BOTH = struct.Struct("=2q")
_BLOCK = 256


class Span(Protocol):
    """Something with a beginning and an end, in `Clock.perf_ns`."""

    start_ns: int
    end_ns: int


S = TypeVar("S", bound=Span)


class Ring(Generic[S]):
    """The spans that ended last, in the order of their ends. Safe for several threads.

    Not the objects themselves: each would keep the host's garbage collector counting, and its memory, freed thousands
    of requests later, would be long gone from every cache. Their numbers are packed into one block, and what many of
    them share (or few have, such as notes) stands in a list; both are as long as they ever get.

    Args:
        kind: the class of the spans; those that are handed out are new ones, with the fields named here and no others.
        numbers: names of the fields that hold integers, beside the times.
        others: names of the fields that hold anything else, two or more.
        size: how many are kept.
    """

    def __init__(self, kind: type[S], numbers: Sequence[str], others: Sequence[str], size: int = _MAX) -> None:
        self._kind = kind
        self._number_names = (*_TIMES, *numbers)
        self._other_names = tuple(others)
        self._get_numbers = attrgetter(*self._number_names)
        self._get_others = attrgetter(*self._other_names)
        self._struct = struct.Struct(f"={len(self._number_names)}q")
        self._times = struct.Struct(f"=2q{self._struct.size - _BOTH.size}x")
        self._numbers = bytearray(self._struct.size * size)
        self._others: list[Any] = [None] * (len(self._other_names) * size)
        self._size = size
        self._next = self._count = 0
        self._lock = threading.Lock()

    def add(self, *spans: S) -> None:
        """Add spans that have ended."""
        for span in spans:
            self.put(self._struct.pack(*self._get_numbers(span)), self._get_others(span))

    def put(self, numbers: bytes, others: Sequence[Any]) -> None:
        """Add one that has been taken apart: its times and ``numbers``, packed as 64-bit integers, and ``others``."""
        step, width = len(numbers), len(others)
        with self._lock:
            at = self._next
            self._numbers[at * step : (at + 1) * step] = numbers
            self._others[at * width : (at + 1) * width] = others
            self._next = (at + 1) % self._size
            if self._count < self._size:
                self._count += 1

    def overlapping(self, start_ns: int, end_ns: int) -> list[S]:
        """Return the spans that share time with the interval, the earliest end first."""
        with self._lock:
            found = [self._kept(at) for at in self._backwards(start_ns, end_ns)]
        found.reverse()
        return [self._value(*kept) for kept in found]

    def latest(self, start_ns: int, end_ns: int) -> S | None:
        """Return the last of what `overlapping` returns. Looks no further back: it is asked for every request."""
        with self._lock:
            at = next(self._backwards(start_ns, end_ns), -1)
            if at < 0:
                return None
            kept = self._kept(at)
        return self._value(*kept)

    def within(self, start_ns: int, end_ns: int) -> int:
        """Return how many spans began and ended in the interval. Makes no values: it is asked over and over."""
        count = 0
        with self._lock:
            for low, high in self._blocks():
                step = self._struct.size
                times = self._times.iter_unpack(memoryview(self._numbers)[low * step : high * step])
                oldest_ns = end_ns
                for begun_ns, ended_ns in times:
                    count += begun_ns >= start_ns and ended_ns <= end_ns
                    oldest_ns = min(oldest_ns, ended_ns)
                if oldest_ns < start_ns - _SLACK_NS:
                    break
        return count

    def __len__(self) -> int:
        return self._count

    def _backwards(self, start_ns: int, end_ns: int) -> Iterator[int]:
        step = self._struct.size
        for back in range(1, self._count + 1):
            at = (self._next - back) % self._size
            begun_ns, ended_ns = _BOTH.unpack_from(self._numbers, at * step)
            if ended_ns < start_ns - _SLACK_NS:
                return
            if ended_ns >= start_ns and begun_ns <= end_ns:
                yield at

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Where the spans lie, in blocks without a break, the latest first; the last of a block is its latest."""
        for low, high in ((0, self._next), (self._next, self._count)):
            for end in range(high, low, -_BLOCK):
                yield max(low, end - _BLOCK), end

    def _kept(self, at: int) -> tuple[bytes, list[Any]]:
        step, width = self._struct.size, len(self._other_names)
        return bytes(self._numbers[at * step : (at + 1) * step]), self._others[at * width : (at + 1) * width]

    def _value(self, numbers: bytes, others: list[Any]) -> S:
        value = self._kind.__new__(self._kind)
        for name, number in zip(self._number_names, self._struct.unpack(numbers), strict=True):
            setattr(value, name, number)
        for name, other in zip(self._other_names, others, strict=True):
            setattr(value, name, other)
        return value


class Ledger:
    """Requests and units that have ended."""

    def __init__(self) -> None:
        self.requests = Ring(Mark, tracker.NUMBERS[len(_TIMES) :], tracker.OTHERS)
        self.units = Ring(Unit, units.NUMBERS[len(_TIMES) :], units.OTHERS)
