"""All that the fact modules look at, joined once: columns, links, threads, requests, witnesses, busy time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from midwatch.trace.intervals import NONE, Cover, Ints, Mask, among, distinct
from midwatch.trace.links import Links, link
from midwatch.trace.load import Trace
from midwatch.trace.sites import Sites
from midwatch.trace.spans import Part, RequestSpan, Spans, find_spans
from midwatch.trace.stalls import Break, Stall, compilations, graph_breaks, loader_stalls, operators
from midwatch.trace.threads import Threads, map_threads


@dataclass(frozen=True)
class Scene:
    """One trace, ready for questions."""

    trace: Trace
    links: Links
    threads: Threads
    window: tuple[int, int]
    spans: Spans
    sites: Sites
    busy: Cover
    """Union of all device work."""
    ops_by_ext: Ints
    """Operator rows sorted by external id."""

    @property
    def has_device(self) -> bool:
        """True where work of a device was recorded."""
        return len(self.trace.device) > 0

    def ms(self, time: int) -> float:
        """Milliseconds from the start of the window to a time of the trace."""
        return (time - self.window[0]) / 1e6

    @property
    def device_expected(self) -> bool:
        """True where the host launched work, recorded or not."""
        return bool(self.links.launches.any())

    def runtime_of(self, request: RequestSpan) -> Ints:
        """Runtime rows on the request's threads while they work for it, in order of time."""
        if request.index not in self._runtime_rows:
            self._runtime_rows[request.index] = self._find_runtime(request)
        return self._runtime_rows[request.index]

    @cached_property
    def _runtime_rows(self) -> dict[int, Ints]:
        return {}

    def _find_runtime(self, request: RequestSpan) -> Ints:
        runtime = self.trace.runtime
        found = []
        for part in request.parts:
            first, last = np.searchsorted(runtime.start, [part.start, part.end], side="left").tolist()
            found.append(first + np.flatnonzero(among(runtime.lane[first:last], part.lanes)))
        if len(found) < 2:
            return found[0] if found else NONE
        rows = np.concatenate(found)
        return distinct(rows - rows.min()) + rows.min() if len(rows) else NONE

    @cached_property
    def main(self) -> tuple[RequestSpan, ...]:
        """The fair requests of the route that most time goes to, of those that use the device where some do.

        Where none does it is the route that most time of operators goes to, of those with operators where some have
        any. A median over the requests of several routes says nothing of any of them.
        """
        fair = self.spans.fair
        weights = {r.index: r.wall for r in fair if bool(self.links.launches[self.runtime_of(r)].any())}
        weights = weights or {r.index: ops for r in fair if (ops := self.operators(r).total)}
        weights = weights or {r.index: r.wall for r in fair}
        spent: Counter[str] = Counter()
        for request in fair:
            spent[request.route] += weights.get(request.index, 0)
        route = max(spent, key=lambda route: spent[route], default="")
        return tuple(r for r in fair if r.route == route and r.index in weights)

    def operators(self, request: RequestSpan) -> Cover:
        """When operators ran on the request's threads while they worked for it."""
        covers = [self.operators_of(part) for part in request.parts]
        return Cover.union(
            np.concatenate([NONE, *(cover.starts for cover in covers)]),
            np.concatenate([NONE, *(cover.ends for cover in covers)]),
        )

    def operators_of(self, part: Part) -> Cover:
        """When operators ran on one thread while it worked for a request."""
        ops = self.trace.ops
        first, last = np.searchsorted(ops.start, [part.start, part.end], side="left").tolist()
        mine = first + np.flatnonzero(among(ops.lane[first:last], part.lanes) & self.computes[first:last])
        return Cover.union(ops.start[mine], np.minimum(ops.end[mine], part.end))

    @cached_property
    def reach(self) -> Ints:
        """The latest end of all device rows up to each."""
        return np.maximum.accumulate(self.trace.device.end)

    @cached_property
    def sync_by_link(self) -> Ints:
        """Rows of ``trace.sync`` sorted by correlation."""
        return np.argsort(self.trace.sync.link, kind="stable")

    @cached_property
    def device_lanes(self) -> frozenset[int]:
        """Lanes on which a device worked."""
        return frozenset(distinct(self.trace.device.lane).tolist())

    @cached_property
    def computes(self) -> Mask:
        """Mask over the operators: those that do not only enclose others."""
        return operators(self.trace)

    @cached_property
    def loads(self) -> tuple[Stall, ...]:
        """Waits for the next batch of a data loader."""
        return loader_stalls(self.trace)

    @cached_property
    def compilations(self) -> tuple[Stall, ...]:
        """Compilations by `torch.compile`, where its own events tell them."""
        return compilations(self.trace)

    @cached_property
    def regions(self) -> tuple[tuple[Break, ...], tuple[Stall, ...]]:
        """Graph breaks, and calls of compiled code."""
        return graph_breaks(self.trace)

    def complete(self, request: RequestSpan) -> bool:
        """True where every launch of the request has its kernels in the trace, so that idle time may be claimed."""
        rows = self.runtime_of(request)
        return bool(self.links.launches[rows].any()) and not bool(self.links.lost[rows].any())


def build_scene(trace: Trace) -> Scene:
    """Join everything once."""
    threads, links, window = map_threads(trace), link(trace), window_of(trace)
    return Scene(
        trace=trace,
        links=links,
        threads=threads,
        window=window,
        spans=find_spans(trace, threads, window, trace.runtime.start[links.lost]),
        sites=Sites(trace),
        busy=Cover.union(trace.device.start, trace.device.end),
        ops_by_ext=np.argsort(trace.ops.ext, kind="stable"),
    )


def window_of(trace: Trace) -> tuple[int, int]:
    """Start and end of the window: the agent's, else the span of the events, up to where the trace was cut."""
    start, end = _recorded(trace)
    return start, end if trace.cut_ns is None else max(start, min(end, trace.cut_ns))


def _recorded(trace: Trace) -> tuple[int, int]:
    if trace.tracks is not None and trace.tracks.capture.end_unix_ns > trace.tracks.capture.start_unix_ns > 0:
        capture = trace.tracks.capture
        return trace.local(capture.start_unix_ns), trace.local(capture.end_unix_ns)
    return 0, trace.end_ns
