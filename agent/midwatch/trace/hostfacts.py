"""Facts of the host lane: allocator calls, locks, compilations, operators."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from midwatch.model.site import Site
from midwatch.model.trace import AllocFacts, CompileFacts, LockFacts, OpFacts
from midwatch.trace import apis
from midwatch.trace.intervals import Ints
from midwatch.trace.replay import Cut
from midwatch.trace.samples import site_of
from midwatch.trace.scene import Scene
from midwatch.trace.shapes import shape_text
from midwatch.trace.spans import RequestSpan
from midwatch.trace.stallfacts import traced_compile_facts
from midwatch.trace.waits import Wait

_MOST_OPS = 20
_MOST_LOCKS = 20
_MOST_COMPILES = 20


Recover = Callable[[Mapping[int, list[Cut]]], float | None]
"""What the requests would gain without these stretches of host work: the median, in untraced milliseconds."""
RecoverAll = Callable[[Mapping[int, list[Cut]], Mapping[int, set[int]]], float | None]
"""The same without these waits as well."""


def alloc_facts(scene: Scene, waits: Sequence[Wait], recover: RecoverAll) -> tuple[AllocFacts, ...]:
    """Calls of the device's allocator inside requests. Those that wait for the device are among ``waits``."""
    runtime, kinds = scene.trace.runtime, scene.links.kinds
    waiting = {row: index for index, wait in enumerate(waits) for row in wait.rows}
    drop: dict[int, set[int]] = defaultdict(set)
    cuts: dict[int, list[Cut]] = defaultdict(list)
    rows_of: dict[str, set[int]] = defaultdict(set)
    affected: dict[str, int] = Counter()
    for request in scene.spans.requests:
        rows = scene.runtime_of(request)
        rows = rows[np.isin(kinds[rows], (apis.ALLOC, apis.FREE))]
        for row in rows.tolist():
            if row in waiting:
                drop[request.index].add(waiting[row])
            else:
                cuts[request.index].append((int(runtime.start[row]), int(runtime.end[row])))
        for number in np.unique(runtime.name[rows]).tolist():
            api = scene.trace.names[number]
            rows_of[api].update(rows[runtime.name[rows] == number].tolist())
            affected[api] += 1
    gain_ms = recover(cuts, drop) if rows_of else None
    facts = []
    for api, found in rows_of.items():
        rows = np.array(sorted(found), np.int64)
        length = runtime.end[rows] - runtime.start[rows]
        facts.append(
            AllocFacts(api, len(rows), int(length.sum()) / 1e6, affected[api], _call_site(scene, rows), gain_ms)
        )
    return tuple(sorted(facts, key=lambda f: -f.total_ms))


def _call_site(scene: Scene, rows: Ints) -> Site | None:
    """The line that samples saw most inside these calls, else the function that made the longest."""
    runtime = scene.trace.runtime
    seen: Counter[Site] = Counter()
    for lane, start, end in zip(
        runtime.lane[rows].tolist(), runtime.start[rows].tolist(), runtime.end[rows].tolist(), strict=True
    ):
        seen += scene.sites.seen(scene.threads.native.get(lane, 0), start, end)
    if seen:
        return seen.most_common(1)[0][0]
    longest = int(rows[(runtime.end[rows] - runtime.start[rows]).argmax()])
    return scene.sites.at((int(runtime.lane[longest]),), int(runtime.start[longest]))


def lock_facts(scene: Scene, recover: Recover) -> tuple[LockFacts, ...]:
    """Waits for locks inside whole requests, grouped by lock and waiting line."""
    tracks = scene.trace.tracks
    if tracks is None:
        return ()
    groups: dict[tuple[object, ...], list[tuple[int, int, Site | None, Site | None, str]]] = defaultdict(list)
    held: dict[tuple[object, ...], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    cuts: dict[tuple[object, ...], dict[int, list[Cut]]] = defaultdict(lambda: defaultdict(list))
    for lock in tracks.locks:
        start = scene.trace.local(lock.unix_ns)
        end = start + lock.duration_ns
        waiter, holder = site_of(lock.waiter, how="sample"), site_of(lock.holder, how="sample")
        key: tuple[object, ...] = (lock.lock, waiter and (waiter.file, waiter.function))
        waiting = _waiting(scene, lock.thread_id, start, end)
        for request in waiting:
            inside = max(start, request.start), min(end, request.end)
            held[key][request.index] += inside[1] - inside[0]
            cuts[key][request.index].append(inside)
        if waiting:
            # A wait begins where it was not seen yet, which may be before the request.
            start = max(start, min(request.start for request in waiting))
            groups[key].append((start, end, waiter, holder, lock.holder_thread_name))
    facts = []
    costly = sorted(groups.items(), key=lambda group: -sum(w[1] - w[0] for w in group[1]))
    for key, waits in costly[:_MOST_LOCKS]:
        sites = Counter(w[2] for w in waits if w[2] is not None)
        holders = Counter((w[3], w[4]) for w in waits if w[3] is not None)
        holder, thread = holders.most_common(1)[0][0] if holders else (None, "")
        facts.append(
            LockFacts(
                lock=str(key[0]),
                count=len(waits),
                total_ms=sum(w[1] - w[0] for w in waits) / 1e6,
                requests_affected=len(held[key]),
                per_request_ms=statistics.median(held[key].values()) / 1e6,
                waiter=sites.most_common(1)[0][0] if sites else None,
                holder=holder,
                holder_thread=thread,
                starts_ms=tuple(scene.ms(w[0]) for w in sorted(waits, key=lambda w: w[0] - w[1])[:8]),
                recoverable_ms=recover(cuts[key]),
            ),
        )
    return tuple(facts)


def _waiting(scene: Scene, thread_id: int, start: int, end: int) -> list[RequestSpan]:
    return [
        request
        for request in scene.spans.whole
        if any(p.thread_id == thread_id and min(p.end, end) > max(p.start, start) for p in request.parts)
    ]


def compile_facts(scene: Scene, recover: Recover) -> tuple[CompileFacts, ...]:
    """Compilations inside requests, by what set them off and where it was called."""
    tracks = scene.trace.tracks
    if tracks is None or not tracks.compiles:
        return traced_compile_facts(scene, recover)
    count: Counter[tuple[str, Site | None]] = Counter()
    total: Counter[tuple[str, Site | None]] = Counter()
    cuts: dict[tuple[str, Site | None], dict[int, list[Cut]]] = defaultdict(lambda: defaultdict(list))
    for event in tracks.compiles:
        start = scene.trace.local(event.start_unix_ns)
        end = start + event.duration_ns
        inside = [r for r in scene.spans.requests if min(r.end, end) > max(r.start, start)]
        own = any(part.thread_id == event.thread_id for request in inside for part in request.parts)
        key = event.trigger, site_of(event.frames, how="compile_callback") if own else None
        if inside:
            count[key] += 1
            total[key] += event.duration_ns
        for request in inside:
            cuts[key][request.index].append((max(start, request.start), min(end, request.end)))
    return tuple(
        CompileFacts(key[0], n, total[key] / 1e6, len(cuts[key]), key[1], recover(cuts[key]))
        for key, n in count.most_common(_MOST_COMPILES)
    )


def op_facts(scene: Scene) -> tuple[OpFacts, ...]:
    """Operators by their own time, without that of operators inside them."""
    ops = scene.trace.ops
    if not len(ops):
        return ()
    own = self_times(ops.start, ops.end, ops.lane)
    totals = np.bincount(ops.name, weights=own, minlength=1)
    counts = np.bincount(ops.name, minlength=1)
    facts = []
    for number in np.argsort(-totals, kind="stable")[:_MOST_OPS].tolist():
        if totals[number] > 0:
            mine = ops.shape[ops.name == number]
            shapes, times = np.unique(mine[mine >= 0], return_counts=True)
            texts = [shape_text(*scene.trace.shapes[s]) for s in shapes[np.argsort(-times, kind="stable")][:3].tolist()]
            facts.append(
                OpFacts(
                    scene.trace.names[number],
                    int(counts[number]),
                    float(totals[number]) / 1e6,
                    tuple(t for t in texts if t),
                )
            )
    return tuple(facts)


def self_times(start: Ints, end: Ints, lane: Ints) -> Ints:
    """Nanoseconds of each interval without its children on the same lane; never negative. Rows are sorted by start."""
    order = np.argsort(lane, kind="stable")
    a, b = start[order], end[order]
    around = np.arange(-1, len(a) - 1)
    around[np.flatnonzero(np.diff(lane[order], prepend=-1))] = -1
    # The interval around each row is the nearest one before it that is still open. All rows look for theirs at once,
    # and each skips what the rows that it meets have skipped already, so that it takes as many turns as n has digits.
    looking = np.flatnonzero(around >= 0)
    while len(looking):
        looking = looking[b[around[looking]] <= a[looking]]
        around[looking] = around[around[looking]]
        looking = looking[around[looking] >= 0]
    inner = np.flatnonzero(around >= 0)
    outer = around[inner]
    inside = np.bincount(outer, np.minimum(b[inner], b[outer]) - a[inner], minlength=len(a))
    own = np.empty(len(a), np.int64)
    own[order] = np.maximum(b - a - inside.astype(np.int64), 0)
    return own
