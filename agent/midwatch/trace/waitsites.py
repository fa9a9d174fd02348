"""The line of each wait: what the samples inside it show, shared among waits that are alike.

A thread that waits has let go of the interpreter, so a sample taken inside a wait names its line. But only some waits
are hit, and a sample taken afterwards names another line. So waits are first grouped by what they are (the call, its
size, the work before and after it), and those without a sample take the line of the ones that have some.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from midwatch.model.site import Site
from midwatch.trace.frames import SYNCING
from midwatch.trace.intervals import Ints, rows_by
from midwatch.trace.scene import Scene
from midwatch.trace.waits import Wait

_SLACK_NS = 200_000
"""Python lets go of the interpreter on its way to the call, so a sample just before it may show the line as well."""
_AGREED = 0.75
"""Share of the samples of waits that are alike that must show one line."""

Votes = Counter[Site]


@dataclass(frozen=True, slots=True)
class Located:
    """One wait with its line, None where nobody saw it, and what is equal for waits that are alike."""

    wait: Wait
    site: Site | None
    likeness: Hashable


def locate(scene: Scene, waits: list[Wait]) -> list[Located]:
    """Find the line of each wait: that of its likes at the same place in the request, its own, that of all its likes.

    Where no sample hit any of them there is no line, or the function that a ``python_function`` event names.
    """
    around = _Around(scene)
    alike = [(w.lane, w.cause, w.api, w.bytes, w.followed, around.of(w)) for w in waits]
    placed = [(key, w.launches_before) for key, w in zip(alike, waits, strict=True)]
    inside = [_inside(scene, w) for w in waits]
    before = [_just_before(scene, w, around.idle_since(w)) for w in waits]
    pooled = _pool([*zip(placed, inside, strict=True), *zip(alike, inside, strict=True)])
    earlier = _pool(zip(alike, before, strict=True))
    found = []
    for wait, key, place, own in zip(waits, alike, placed, inside, strict=True):
        site = (
            _agreed(pooled[place], wait)
            or _most_seen(own, wait)
            or _agreed(pooled[key], wait)
            or (None if pooled[key] else _agreed(earlier[key], wait))
            or scene.sites.calling((wait.lane,), wait.start)
        )
        found.append(Located(wait, site, key))
    return found


def _inside(scene: Scene, wait: Wait) -> Votes:
    return scene.sites.seen(scene.threads.native.get(wait.lane, 0), wait.start, wait.end)


def _just_before(scene: Scene, wait: Wait, idle_since: int) -> Votes:
    """Only a call that is known to wait counts: other lines ran there, too."""
    thread = scene.threads.native.get(wait.lane, 0)
    seen = scene.sites.seen(thread, max(wait.start - _SLACK_NS, idle_since), wait.start - 1)
    return Counter({site: n for site, n in seen.items() if site.callee in SYNCING.get(wait.cause, ())})


def _pool(votes: Iterable[tuple[Hashable, Votes]]) -> dict[Hashable, Votes]:
    pooled: dict[Hashable, Votes] = defaultdict(Counter)
    for key, seen in votes:
        pooled[key].update(seen)
    return pooled


def _most_seen(votes: Votes, wait: Wait) -> Site | None:
    """The line seen most; of lines seen as often the one whose call is known to wait."""
    return max(votes, key=lambda site: (votes[site], site.callee in SYNCING.get(wait.cause, ())), default=None)


def _agreed(votes: Votes, wait: Wait) -> Site | None:
    site = _most_seen(votes, wait)
    if site is None:
        return None
    here = sum(n for other, n in votes.items() if (other.file, other.line) == (site.file, site.line))
    return site if here >= _AGREED * votes.total() else None


class _Around:
    """The calls that stand before and after a wait on its thread."""

    def __init__(self, scene: Scene) -> None:
        runtime, links = scene.trace.runtime, scene.links
        self._scene = scene
        self._ends: dict[int, Ints] = {}
        self._working: dict[int, Ints] = {}
        self._starts: dict[int, Ints] = {}
        for lane, rows in rows_by(runtime.lane):
            self._ends[lane] = runtime.end[rows]
            self._working[lane] = rows[links.works[rows] > 0]
            self._starts[lane] = runtime.start[self._working[lane]]

    def of(self, wait: Wait) -> tuple[int, int]:
        """Names of the work launched last before the wait and first after it, by number; -1 for none.

        What follows the hand-over of a result belongs to another request.
        """
        rows, starts = self._working[wait.lane], self._starts[wait.lane]
        return (
            self._name(rows, int(np.searchsorted(starts, wait.start, side="left")) - 1),
            self._name(rows, int(np.searchsorted(starts, wait.end, side="left"))) if wait.followed else -1,
        )

    def _name(self, rows: Ints, position: int) -> int:
        if not 0 <= position < len(rows):
            return -1
        return int(self._scene.trace.device.name[self._scene.links.first[rows[position]]])

    def idle_since(self, wait: Wait) -> int:
        """When the call before the wait returned."""
        ends = self._ends[wait.lane]
        last = int(np.searchsorted(ends, wait.start, side="right")) - 1
        return int(ends[last]) if last >= 0 else wait.start - _SLACK_NS
