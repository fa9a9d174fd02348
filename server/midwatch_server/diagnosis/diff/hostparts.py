"""What held the host of a request: waits, gaps, collections, locks, compilations, the allocator, launches."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from midwatch.model.site import Site
from midwatch.model.trace import GapFacts, TimeFacts, WaitFacts

from midwatch_server.diagnosis.diff.side import Side
from midwatch_server.diagnosis.diff.values import Part
from midwatch_server.diagnosis.words import call, method, place

WAITS = {
    "item": "the wait of a scalar read back (`.item()` or the like)",
    "d2h": "the wait of a blocking copy to the host",
    "h2d_pageable": "the wait of a copy from pageable memory to the device",
    "stream_sync": "the wait of a stream synchronize",
    "event_sync": "the wait of an event synchronize",
    "device_sync": "the wait of `torch.cuda.synchronize()`",
    "free": "the wait of a cudaFree",
    "other": "a wait for the device",
}
GAPS = {
    "python": "Python",
    "blocked": "a blocking call",
    "ops": "operators on the CPU while the device idles",
    "alloc": "the device's allocator",
    "compile": "compilation",
    "unknown": "host time without a record",
}
"""Gaps by what the host did. Collections, locks and dispatch are counted by what is known of them otherwise."""

EXPLICIT = "an explicit gc.collect()"
NOWHERE = Site("", 0, "")


class Key(NamedTuple):
    """What makes two parts the same thing on both sides; ``file`` and ``function`` are "" where no place is known."""

    kind: str
    name: str
    file: str = ""
    function: str = ""


class Found(NamedTuple):
    """One part with the words for it."""

    label: str
    part: Part


TIMES = {
    "ops": "operators",
    "gc": "garbage collection",
    "lock": "waiting for a lock",
    "compile": "compilation",
    "queued": "waiting while the model's thread worked for others",
    "blocked": "blocking calls",
    "python": "Python",
    "glue": "Python between operators",
    "idle": "waiting for work, an event or another thread",
    "outside": "waiting for something outside of the process",
    "held": "waiting for the interpreter or a processor",
    "unknown": "time without a record",
}
"""Where the time went without a device, by what it was."""


def host_parts(side: Side, without: frozenset[str]) -> dict[Key, Found]:
    """Return all parts of the host's time on one side; what `nameless` names is put together whatever its place."""
    return {**_waits(side, without), **_gaps(side, without), **_collections(side), **_locks(side), **_others(side)}


def time_parts(side: Side) -> dict[Key, Found]:
    """Return where the time of a request without a device went: parts that add up to the whole of it."""
    groups: dict[Key, list[TimeFacts]] = defaultdict(list)
    for facts in side.summary.time:
        groups[_key("time", facts.what, facts.site, frozenset())].append(facts)
    found = {}
    for key, group in groups.items():
        top = max(group, key=lambda facts: facts.per_request_ms)
        ms = sum(facts.per_request_ms for facts in group)
        untraced = side.evidence.untraced(ms) if key.name == "ops" else ms
        part = Part(untraced, 1.0, 1.0, untraced, top.site)
        found[key] = Found(f"{TIMES.get(key.name, key.name)}{_at(top.site)}", part)
    return found


def operator_parts(side: Side) -> dict[Key, Found]:
    """Return the time inside operators, where nothing else divides the time of a request without a device."""
    inside = side.of(lambda facts: facts.op_ms)
    if not any(inside):
        return {}
    ms = side.evidence.untraced(statistics.median(inside))
    return {Key("time", "ops"): Found(TIMES["ops"], Part(ms, 1.0, 1.0, ms))}


def nameless(a: Side, b: Side) -> frozenset[str]:
    """Return the causes of waits, and what hosts did in gaps, whose place one side knows and the other does not."""
    places = [_places(side) for side in (a, b)]
    names = {name for name, _ in places[0] | places[1]}
    return frozenset(
        name for name in names if any((name, True) in places[i] and (name, False) in places[1 - i] for i in (0, 1))
    )


def _places(side: Side) -> set[tuple[str, bool]]:
    """What there is on this side, with whether a place is known."""
    waits = {(wait.cause, wait.site is not None) for wait in side.summary.waits}
    return waits | {(gap.host, gap.site is not None) for gap in side.summary.gaps if gap.host != "unknown"}


def _key(kind: str, name: str, site: Site | None, without: frozenset[str]) -> Key:
    if site is None or name.partition(" ")[0] in without:
        return Key(kind, name)
    return Key(kind, name, site.file, site.function)


def _waits(side: Side, without: frozenset[str]) -> dict[Key, Found]:
    groups: dict[Key, list[WaitFacts]] = defaultdict(list)
    for wait in side.summary.waits:
        name = wait.cause if wait.count > wait.handover else f"{wait.cause} handover"
        groups[_key("wait", name, wait.site, without)].append(wait)
    return {key: _wait(side, key, group) for key, group in groups.items()}


def _wait(side: Side, key: Key, group: list[WaitFacts]) -> Found:
    top = max(group, key=lambda wait: wait.total_ms)
    whole = max(side.summary.window.requests, 1)
    affected = min(max(wait.requests_affected for wait in group), whole)
    site = top.site if key.file else None
    callee = site.callee if site else ""
    what = f"the {method(callee)} wait" if callee else WAITS.get(top.cause, WAITS["other"])
    handover = key.name.endswith(" handover")
    part = Part(
        ms=_per_request(group, whole),
        count=sum(wait.count for wait in group) / max(affected, 1),
        share=affected / whole,
        # The hand-over of a result waits for the work before it, which counts by itself.
        gain_ms=0.0 if handover else side.evidence.untraced(sum(wait.recoverable_ms for wait in group)),
        site=site,
        detail=top.api,
    )
    return Found(f"the hand-over of the result{_at(site)}" if handover else f"{what}{_at(site)}", part)


def _gaps(side: Side, without: frozenset[str]) -> dict[Key, Found]:
    groups: dict[Key, list[GapFacts]] = defaultdict(list)
    for gap in side.summary.gaps:
        if gap.host in GAPS:
            groups[_key("gap", gap.host, gap.site, without)].append(gap)
    return {key: _gap(side, key, group) for key, group in groups.items()}


def _gap(side: Side, key: Key, group: list[GapFacts]) -> Found:
    top = max(group, key=lambda gap: gap.total_ms)
    whole = max(side.summary.window.requests, 1)
    affected = min(max(gap.requests_affected for gap in group), whole)
    site = top.site if key.file else None
    callee = top.callee or (site.callee if site else "")
    what = call(callee) if top.host == "blocked" and callee else GAPS[top.host]
    part = Part(
        ms=_per_request(group, whole),
        count=sum(gap.count for gap in group) / max(affected, 1),
        share=affected / whole,
        gain_ms=sum(gap.recoverable_ms for gap in group),
        site=site,
    )
    return Found(f"{what}{_at(site)}", part)


def _per_request(group: list[WaitFacts] | list[GapFacts], whole: int) -> float:
    """Put groups together as the usual request has them: what most requests have adds up, what is rare does not."""
    usual = [one.per_request_ms for one in group if 2 * one.requests_affected > whole]
    return sum(usual) if usual else max(one.per_request_ms for one in group)


def _collections(side: Side) -> dict[Key, Found]:
    found = {}
    for gc in side.summary.gc:
        what = EXPLICIT if gc.explicit else f"garbage collection of generation {gc.generation}"
        site = gc.site if gc.explicit else None
        part = _part(side, gc.per_request_ms, gc.count, gc.requests_affected, site=site, gain=gc.per_request_ms)
        found[_key("gc", what, site, frozenset())] = Found(f"{what}{_at(site)}", part)
    return found


def _locks(side: Side) -> dict[Key, Found]:
    found = {}
    for lock in side.summary.locks:
        label = f"waiting for lock `{lock.lock}`{_at(lock.waiter)}"
        ms = lock.per_request_ms
        part = _part(side, ms, lock.count, lock.requests_affected, site=lock.waiter, gain=ms)
        found[_key("lock", lock.lock, lock.waiter, frozenset())] = Found(label, part)
    return found


def _others(side: Side) -> dict[Key, Found]:
    """Compilations and calls of the allocator, whose cost shows in gaps, and the dispatch of launches."""
    found: dict[Key, Found] = {}
    for compiled in side.summary.compiles:
        ms = compiled.total_ms / max(compiled.requests_affected, 1)
        part = _part(side, ms, compiled.count, compiled.requests_affected, site=compiled.site)
        found[Key("compile", compiled.what)] = Found(f"compilation ({compiled.what or 'unknown why'})", part)
    for alloc in side.summary.allocs:
        ms = alloc.total_ms / max(alloc.requests_affected, 1)
        part = _part(side, ms, alloc.count, alloc.requests_affected, site=alloc.site)
        found[Key("alloc", alloc.api)] = Found(f"calls of {alloc.api}", part)
    launch = side.summary.launch
    if launch.per_request and side.device_known:
        untraced = side.evidence.untraced
        part = Part(
            ms=untraced(launch.dispatch_gap_ms),
            count=launch.per_request,
            share=1.0,
            gain_ms=untraced(launch.recoverable_ms),
            site=launch.site,
        )
        found[Key("launch", "dispatch")] = Found("the device waiting for the next launch", part)
    return found


def _part(side: Side, ms: float, count: int, affected: int, *, site: Site | None, gain: float = 0.0) -> Part:
    whole = max(side.summary.window.requests, 1)
    return Part(ms, count / max(affected, 1), min(affected / whole, 1.0), gain, site)


def _at(site: Site | None) -> str:
    return f" in {place(site)}" if site is not None else ""


def label(a: Mapping[Key, Found], b: Mapping[Key, Found], key: Key) -> str:
    """Return the words for a part: B's, since its lines are those of today, unless A's place is known better."""
    known = [side[key] for side in (b, a) if key in side]
    return max(known, key=lambda found: (found.part.site is not None) + (found.part.site or NOWHERE).exact).label
