"""Makes one file of the profiler's trace and the agent's tracks, as a stream: the trace is never held whole."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from midwatch.companion.display import display_events

_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
_PIECE = 1 << 20
_HEAD_LIMIT = 64 << 20
_TAIL = 1 << 20


class MergeError(ValueError):
    """The two files cannot be put together; the text is one sentence."""


def merge(trace: Path, tracks: Path | None, out: Path) -> None:
    """Write ``out`` (gzip): the tracks under the key ``midwatch``, their display events first in the array, the trace.

    Raises:
        MergeError: the trace holds no events, or the tracks are no JSON.
        OSError: a file cannot be read or written.
    """
    text, events = b"", b""
    with trace.open("rb") as source:
        head = _head(source)
        opening = head.find(b"{")
        array = _ARRAY.search(head)
        if opening < 0 or array is None:
            raise MergeError("the profiler's file holds no events")
        if tracks is not None:
            text, events = _tracks(tracks, _base_ns(source, head[: array.start()]))
        source.seek(array.end())
        empty = source.read(64).lstrip().startswith(b"]")
        with contextlib.closing(_packed(out)) as target:
            target.write(head[: opening + 1])
            if text:
                target.write(b'\n"midwatch": ' + text + b",")
            target.write(head[opening + 1 : array.end()])
            if events:
                target.write(b"\n" + events + (b"" if empty else b","))
            source.seek(array.end())
            shutil.copyfileobj(source, target, _PIECE)


def _head(source: IO[bytes]) -> bytes:
    """Return the text up to the events, at least; all that was looked at where there are none."""
    head = b""
    while len(head) < _HEAD_LIMIT:
        piece = source.read(_PIECE)
        if not piece:
            break
        head += piece
        if _ARRAY.search(head, max(0, len(head) - len(piece) - 64)):
            break
    return head


def _base_ns(source: IO[bytes], head: bytes) -> int:
    """Return the trace's time base; profilers write it before the events or after them, old ones not at all (0)."""
    source.seek(0, 2)
    source.seek(max(0, source.tell() - _TAIL))
    found = _BASE.search(head) or _last(_BASE, source.read())
    return int(found[1]) if found else 0


def _last(pattern: re.Pattern[bytes], text: bytes) -> re.Match[bytes] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007 - the last one is what is wanted
        pass
    return found


def _tracks(path: Path, base_ns: int) -> tuple[bytes, bytes]:
    """Return the tracks' text, and their display events as text."""
    text = path.read_bytes()
    try:
        tracks: dict[str, Any] = json.loads(text)
        events = b",\n".join(_encoded(tracks, base_ns))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise MergeError(f"the agent's tracks of this window cannot be read ({error!r})") from error
    return text, events


def _encoded(tracks: dict[str, Any], base_ns: int) -> Iterator[bytes]:
    for event in display_events(tracks, base_ns):
        yield json.dumps(event, separators=(", ", ": ")).encode()


def _packed(out: Path) -> Any:
    """Open a gzip file for writing; Intel's library packs ten times faster than zlib."""
    from isal import igzip

    return igzip.IGzipFile(filename=str(out), mode="wb", compresslevel=2)  # type: ignore[no-untyped-call]
