"""Garbage collections: from the agent's callbacks, else from calls of ``gc.collect`` among the Python functions."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from midwatch.model.site import Site
from midwatch.model.trace import GcFacts
from midwatch.trace.frames import builtin_name
from midwatch.trace.intervals import distinct
from midwatch.trace.replay import Cut
from midwatch.trace.samples import site_of
from midwatch.trace.scene import Scene

_COLLECT_NS = 200_000
"""A call of something named ``collect`` below this is not worth a word, and may not be the garbage collector's."""

_MOST = 20
"""Groups that are told: each is replayed."""


@dataclass(frozen=True, slots=True)
class Pause:
    """One collection. ``generation`` is 2 for an explicit call seen in the trace alone: that is what it defaults to."""

    start: int
    end: int
    generation: int
    collected: int
    explicit: bool
    thread_id: int
    site: Site | None


def find_pauses(scene: Scene) -> list[Pause]:
    """All collections of the window in order of time."""
    tracks = scene.trace.tracks
    if tracks is not None and tracks.gc:
        found = []
        for pause in tracks.gc:
            start = scene.trace.local(pause.start_unix_ns)
            site = site_of(pause.frames, how="gc_callback")
            found.append(
                Pause(
                    start,
                    start + pause.duration_ns,
                    pause.generation,
                    pause.collected,
                    pause.explicit,
                    pause.thread_id,
                    site,
                ),
            )
        return sorted(found, key=lambda p: p.start)
    return _from_python(scene)


def _from_python(scene: Scene) -> list[Pause]:
    table, names = scene.trace.python, scene.trace.names
    numbers = [n for n in distinct(table.name).tolist() if builtin_name(names[n]) == "collect"]
    rows = np.flatnonzero(np.isin(table.name, numbers) & (table.end - table.start >= _COLLECT_NS))
    found = []
    for row in rows.tolist():
        start, lane = int(table.start[row]), int(table.lane[row])
        site = scene.sites.at((lane,), start)
        found.append(Pause(start, int(table.end[row]), 2, 0, True, scene.threads.native.get(lane, 0), site))
    return found


def gc_facts(
    scene: Scene, pauses: list[Pause], recover: Callable[[Mapping[int, list[Cut]]], float | None]
) -> tuple[GcFacts, ...]:
    """Group the collections that held requests, by generation and, where the code asked for them, by site.

    A collection holds every thread, and the line at which an automatic one starts is chance. ``recover`` tells what
    requests would gain without stretches of host work: the median, in untraced milliseconds.
    """
    groups: dict[tuple[object, ...], list[Pause]] = defaultdict(list)
    for pause in pauses:
        site = pause.site if pause.explicit else None
        groups[pause.generation, pause.explicit, site and (site.file, site.line, site.function)].append(pause)
    facts = []
    for group in sorted(groups.values(), key=lambda group: -sum(p.end - p.start for p in group))[:_MOST]:
        held: dict[int, int] = defaultdict(int)
        cuts: dict[int, list[Cut]] = defaultdict(list)
        inside = set()
        for i, pause in enumerate(group):
            for request in scene.spans.whole:
                both = min(request.end, pause.end) - max(request.start, pause.start)
                if both > 0:
                    held[request.index] += both
                    cuts[request.index].append((max(request.start, pause.start), min(request.end, pause.end)))
                    inside.add(i)
        if not held:
            continue
        counted = [group[i] for i in sorted(inside)]
        lengths = [p.end - p.start for p in counted]
        first = counted[0]
        facts.append(
            GcFacts(
                generation=first.generation,
                count=len(counted),
                total_ms=sum(lengths) / 1e6,
                max_ms=max(lengths) / 1e6,
                requests_affected=len(held),
                per_request_ms=statistics.median(held.values()) / 1e6,
                collected=sum(p.collected for p in counted),
                explicit=first.explicit,
                thread_id=first.thread_id,
                site=first.site if first.explicit else None,
                starts_ms=_starts(scene, counted),
                recoverable_ms=recover(cuts),
            ),
        )
    return tuple(sorted(facts, key=lambda f: -f.total_ms))


def _starts(scene: Scene, pauses: list[Pause]) -> tuple[float, ...]:
    return tuple(scene.ms(p.start) for p in sorted(pauses, key=lambda p: p.start - p.end)[:8])
