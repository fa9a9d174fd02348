"""Writing the tracks beside a trace, in small pieces: to encode them at once would hold the GIL for milliseconds."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import TextIO

from midwatch.clock import Clock
from midwatch.manners import GiveWay
from midwatch.model.plain import to_plain
from midwatch.model.tracks import Tracks

_CHUNK = 5


def write_tracks(path: str, tracks: Tracks, clock: Clock) -> None:
    """Write ``tracks`` as one JSON document, that of `to_plain`. Raises `OSError`, and leaves nothing then."""
    part = Path(f"{path}.part")
    try:
        _write(part, tracks, GiveWay(clock))
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _write(path: Path, tracks: Tracks, give_way: GiveWay) -> None:
    with open(path, "w", encoding="utf-8", opener=_private) as file:
        for index, field in enumerate(fields(tracks)):
            file.write(f"{',' if index else '{'}{json.dumps(field.name)}:")
            value = getattr(tracks, field.name)
            if isinstance(value, tuple):
                _write_list(file, value, give_way)
            else:
                file.write(_text(value))
        file.write("}")


def _write_list(file: TextIO, items: tuple[object, ...], give_way: GiveWay) -> None:
    file.write("[")
    for start in range(0, len(items), _CHUNK):
        give_way()
        if start:
            file.write(",")
        file.write(_text(items[start : start + _CHUNK])[1:-1])
    file.write("]")


def _text(value: object) -> str:
    return json.dumps(to_plain(value), separators=(",", ":"))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
