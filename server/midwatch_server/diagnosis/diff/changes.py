"""The parts of both sides set beside each other, and how much of the difference each of them accounts for.

The difference of the median request falls into what the device worked longer or shorter, and what it idled longer or
shorter. The first is accounted for by kernels and copies; the second by what held the host, each with what the replay
of its own trace says that a request would gain without it: a wait that hid behind device work accounts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch_server.diagnosis.diff.deviceparts import device_parts
from midwatch_server.diagnosis.diff.figures import floor_ms
from midwatch_server.diagnosis.diff.hostparts import (
    Found,
    Key,
    host_parts,
    label,
    nameless,
    operator_parts,
    time_parts,
)
from midwatch_server.diagnosis.diff.side import Side
from midwatch_server.diagnosis.diff.values import Change, Figure, Part, Share

WORTH = 0.1
"""A change that accounts for a smaller share of the difference is not spoken of."""
LIKE = 0.2
"""Costs that differ by less than this share may be of the same thing."""


def changes(a: Side, b: Side, figures: Iterable[Figure]) -> tuple[Change, ...]:
    """Return everything that at least one side has, the largest difference first."""
    known = {figure.key: figure for figure in figures}
    host = _joined(*_hosts(a, b), _noise(a, b, known.get("host_busy_ms")))
    device: list[Change] = []
    if a.device_known and b.device_known:
        device = _joined(device_parts(a), device_parts(b), _noise(a, b, known.get("device_busy_ms")), on_device=True)
    return tuple(sorted((*host, *device), key=lambda change: (-abs(change.effect_ms), -abs(change.delta_ms))))


def _hosts(a: Side, b: Side) -> tuple[dict[Key, Found], dict[Key, Found]]:
    if a.summary.device.present or b.summary.device.present:
        without = nameless(a, b)
        return host_parts(a, without), host_parts(b, without)
    if a.summary.time and b.summary.time:
        return time_parts(a), time_parts(b)
    without = nameless(a, b)
    return (
        {**host_parts(a, without), **operator_parts(a)},
        {**host_parts(b, without), **operator_parts(b)},
    )


def _noise(a: Side, b: Side, figure: Figure | None) -> float:
    """Return what a part may differ by without being said to: half of the spread of what it is a part of."""
    halves = [(one.high - one.low) / 2 for one in (figure.a, figure.b) if one is not None] if figure else []
    return max((floor_ms(a, b), *halves))


def _joined(a: dict[Key, Found], b: dict[Key, Found], noise: float, *, on_device: bool = False) -> list[Change]:
    twins = _twins(a, b)
    renamed = {twins.get(key, key): found for key, found in a.items()}
    found = []
    for key in dict.fromkeys((*renamed, *b)):
        before, after = (side[key].part if key in side else None for side in (renamed, b))
        found.append(Change(key.kind, label(renamed, b, key), before, after, _status(before, after, noise), on_device))
    return found


def _twins(a: dict[Key, Found], b: dict[Key, Found]) -> dict[Key, Key]:
    """Pair what stands at two places and costs the same, where one of the places is known by its function at best.

    One window's samples find the line in a helper, another's only the function that called it.
    """
    pairs: dict[Key, Key] = {}
    for key, mine in a.items():
        if key in b or not key.function:
            continue
        for other, theirs in b.items():
            taken = other in a or other in pairs.values()
            if (
                not taken
                and key[:2] == other[:2]
                and _inexact(mine.part, theirs.part)
                and _alike(mine.part, theirs.part)
            ):
                pairs[key] = other
                break
    return pairs


def _inexact(a: Part, b: Part) -> bool:
    return a.site is not None and b.site is not None and a.site.exact != b.site.exact


def _alike(a: Part, b: Part) -> bool:
    return abs(a.ms - b.ms) <= LIKE * max(a.ms, b.ms) and min(a.share, b.share) >= 0.5


def _status(a: Part | None, b: Part | None, noise: float) -> str:
    if a is None or b is None:
        return "new" if a is None else "gone"
    # What is rare on one side and common on the other costs the usual request something there alone.
    delta = b.ms * b.share - a.ms * a.share
    if abs(delta) > noise:
        return "more" if delta > 0 else "less"
    return "same"


def account(wall: Figure, figures: Iterable[Figure], all_changes: tuple[Change, ...]) -> tuple[Share, ...]:
    """Return what accounts for the difference of the median request, the largest share first; nothing for none."""
    if wall.status not in ("more", "less"):
        return ()
    known = {figure.key: figure for figure in figures}
    busy, idle = known.get("device_busy_ms"), known.get("device_idle_ms")
    host = [change for change in all_changes if not change.on_device]
    if busy is None or idle is None:
        return _worth(_shared(wall.delta, host), wall)
    device = [change for change in all_changes if change.on_device]
    worked = busy.delta if busy.status in ("more", "less") else 0.0
    return _worth((*_shared(worked, device), *_shared(wall.delta - worked, host)), wall)


def _shared(delta: float, candidates: list[Change]) -> tuple[Share, ...]:
    """Divide ``delta`` among the changes that pull its way, the largest first, until nothing of it is left."""
    sign = 1.0 if delta > 0 else -1.0
    left, shares = abs(delta), []
    for change in sorted(candidates, key=lambda change: -change.effect_ms * sign):
        mine = min(change.effect_ms * sign, left)
        if mine <= 0 or change.status == "same":
            continue
        shares.append(Share(mine * sign, change))
        left -= mine
    return tuple(shares)


def _worth(shares: tuple[Share, ...], wall: Figure) -> tuple[Share, ...]:
    """Keep the shares worth a word, those that pull against the whole difference among them."""
    worth = [share for share in shares if abs(share.ms) >= WORTH * abs(wall.delta)]
    return tuple(sorted(worth, key=lambda share: -abs(share.ms)))
