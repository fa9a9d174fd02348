"""Writing the tracks beside a trace, in small pieces: to encode them at once would hold the GIL for milliseconds."""

from __future__ import annotations

import os
from pathlib import Path

from midwatch.clock import Clock
from midwatch.manners import GiveWay
from midwatch.model.pieces import pieces
from midwatch.model.tracks import Tracks


def write_tracks(path: str, tracks: Tracks, clock: Clock) -> None:
    """Write ``tracks`` as one JSON document, that of `to_plain`. Raises `OSError`, and leaves nothing then."""
    part = Path(f"{path}.part")
    try:
        with open(part, "w", encoding="utf-8", opener=_private) as file:
            file.writelines(pieces(tracks, GiveWay(clock)))
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
