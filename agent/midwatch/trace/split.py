"""From a stream of text to batches of typed events: the array is cut between events, never built as one tree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from midwatch.trace.errors import TraceError
from midwatch.trace.events import EVENT, EVENTS, HEAD, UNREADABLE, Event, Head
from midwatch.trace.repair import repair

_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args)"\s*:)')
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_END = re.compile(rb"\}\s*\]|\[\s*\]")
_HEAD_LIMIT = 64 << 20
_EVENT_LIMIT = 8 << 20
"""Text without an edge between two events beyond which it is none: it is left out, and counted as one event."""
_OVERLAP = 4 << 10
_EDGE_TAIL = 4 << 10
_TAIL = 256 << 10
_END_TRIES = 6


class Reader:
    """Yields batches of events; afterwards ``head`` holds what stood beside them and the counters what was mended."""

    def __init__(self, pieces: Iterable[bytes], name: str) -> None:
        self._pieces = iter(pieces)
        self._name = name
        self._offset = 0
        self.head = Head()
        self.head_damaged = False
        self.repaired = 0
        self.dropped = 0
        self.first_damage = -1
        """Offset in the uncompressed text of the first event that was mended or dropped."""
        self.unfinished = False
        """True where the text ended inside the array."""

    def __iter__(self) -> Iterator[list[Event]]:
        """Yield the events of one piece after the other. Raises `TraceError` where there is no array of events."""
        before, rest = self._find_array()
        self._read_head(before, b"}")
        after: bytes | None = None
        for piece in self._pieces:
            if after is not None:
                after += piece if len(after) < _HEAD_LIMIT else b""
                continue
            cut = _last_boundary(piece, 0)
            if cut < 0:
                seen, piece = len(rest), rest + piece  # noqa: PLW2901 - an event that is longer than a piece
                cut, rest = _last_boundary(piece, seen), b""
            if cut < 0:
                rest = self._without_endless(piece)
                continue
            # Once, since a piece is large: the array that is decoded, from what was left over to the last whole event.
            events, after = self._decode(b"".join((b"[", rest, memoryview(piece)[: cut + 1], b"]")))
            self._offset += len(rest) + cut + 1
            rest = piece[cut + 1 :]
            if after is not None:
                after += rest
            rest = rest.lstrip().removeprefix(b",")
            yield events
        if after is None:
            events, after = self._finish(rest)
            yield events
        if after.strip().startswith(b","):
            self._read_head(before, after)

    def _find_array(self) -> tuple[bytes, bytes]:
        """Return the text before the array and the beginning of what is inside it."""
        buffer = b""
        for piece in self._pieces:
            buffer += piece
            text = buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
            if text.startswith(b"["):
                return b"", text[1:]
            found = _ARRAY.search(buffer)
            if found:
                self._offset = found.end()
                return buffer[: found.start()], buffer[found.end() :]
            if len(buffer) > _HEAD_LIMIT or (text and not text.startswith(b"{")):
                break
        raise TraceError(
            f'{self._name} is not a Kineto trace: it holds no "traceEvents". '
            "Give the .json or .json.gz file that torch.profiler wrote.",
        )

    def _without_endless(self, buffer: bytes) -> bytes:
        """Return ``buffer``, or only its end where it is too long to be one event."""
        if len(buffer) <= _EVENT_LIMIT:
            return buffer
        self.dropped += 1
        if self.first_damage < 0:
            self.first_damage = self._offset
        self._offset += len(buffer) - _OVERLAP
        return buffer[-_OVERLAP:]

    def _decode(self, array: bytes) -> tuple[list[Event], bytes | None]:
        """Events of one stretch, and what follows the array where it ended in there."""
        try:
            return EVENTS.decode(array), None
        except UNREADABLE:
            return self._one_by_one(array[1:-1])

    def _finish(self, text: bytes) -> tuple[list[Event], bytes]:
        """Take the last stretch, which holds the end of the array and what stands behind it."""
        ends = list(_END.finditer(text, max(0, len(text) - _TAIL)))
        if not ends and len(text) > _TAIL:
            ends = list(_END.finditer(text))
        for match in reversed(ends[-_END_TRIES:]):
            cut = match.start() + 1 if text[match.start() : match.start() + 1] == b"}" else match.start()
            try:
                return EVENTS.decode(b"[" + text[:cut] + b"]"), text[match.end() :]
            except UNREADABLE:
                continue
        if not text.strip() or text.lstrip().startswith(b"]"):
            self.unfinished = not text.strip()
            return [], text.lstrip().removeprefix(b"]")
        events, after = self._one_by_one(text)
        self.unfinished = after is None
        return events, after or b""

    def _one_by_one(self, text: bytes) -> tuple[list[Event], bytes | None]:
        """Decode event for event: mend what can be mended, drop and count the rest, stop where the array closes."""
        events: list[Event] = []
        start = 0
        cuts = [(m.start() + 1, m.end()) for m in _BETWEEN.finditer(text)]
        cuts.append((len(text), len(text)))
        for stop, following in cuts:
            piece = text[start:stop]
            event = _event(piece)
            if event is None:
                closed = _closing(piece)
                if closed is not None:
                    last, after = closed
                    if last is not None:
                        events.append(last)
                    return events, after + text[stop:]
                event = self._mended(piece, start)
            if event is not None:
                events.append(event)
            start = following
        return events, None

    def _mended(self, piece: bytes, offset: int) -> Event | None:
        if self.first_damage < 0:
            self.first_damage = self._offset + offset
        event = _event(repair(piece))
        if event is None:
            self.dropped += 1
        else:
            self.repaired += 1
        return event

    def _read_head(self, before: bytes, after: bytes) -> None:
        """Take what stands beside the events: read at once, since the text may be cut, and again at its end."""
        if not before:
            return
        head = _head(before + b'"traceEvents":[]' + after)
        self.head_damaged = head is None
        if head is not None:
            self.head = head


def _last_boundary(text: bytes, seen: int) -> int:
    """Index of the last ``}`` that ends an event and is followed by another one, -1 where there is none.

    ``seen`` bytes were looked at before, and had none.
    """
    fresh = max(0, seen - _OVERLAP)
    stop, size = len(text), _EDGE_TAIL
    while stop > fresh:
        start = max(fresh, len(text) - size)
        last = -1
        for match in _BETWEEN.finditer(text, start):
            if match.start() >= stop:
                break
            last = match.start()
        if last >= 0:
            return last
        stop, size = start, size * 8
    return -1


def _head(text: bytes) -> Head | None:
    try:
        return HEAD.decode(text)
    except UNREADABLE:
        return None


def _event(piece: bytes) -> Event | None:
    try:
        return EVENT.decode(piece)
    except UNREADABLE:
        return None


def _closing(piece: bytes) -> tuple[Event | None, bytes] | None:
    """Return the last event of the array and the text behind the array, or None where it does not end in ``piece``."""
    text = piece.decode("utf-8", "replace").lstrip()
    if text.startswith("]"):
        return None, text[1:].encode()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    rest = text[end:].lstrip()
    if not rest.startswith("]"):
        return None
    return _event(text[:end].encode()), rest[1:].encode()
