"""All that the fact modules look at, joined once: columns, links, threads, requests, witnesses, busy time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from midwatch.trace.intervals import NONE, Cover, Ints, distinct
from midwatch.trace.links import Links, link
from midwatch.trace.load import Trace
from midwatch.trace.sites import Sites
from midwatch.trace.spans import RequestSpan, Spans, find_spans
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

    @property
    def device_expected(self) -> bool:
        """True where the host launched work, recorded or not."""
        return bool(self.links.launches.any())

    def runtime_of(self, request: RequestSpan) -> Ints:
        """Runtime rows on the request's threads while they work for it, in order of time."""
        runtime = self.trace.runtime
        found = []
        for part in request.parts:
            first, last = np.searchsorted(runtime.start, [part.start, part.end], side="left").tolist()
            found.append(first + np.flatnonzero(np.isin(runtime.lane[first:last], part.lanes)))
        if len(found) < 2:
            return found[0] if found else NONE
        rows = np.concatenate(found)
        return distinct(rows - rows.min()) + rows.min() if len(rows) else NONE

    @cached_property
    def main(self) -> tuple[RequestSpan, ...]:
        """The fair requests of the route that most time goes to, of those that use the device where some do.

        A median over the requests of several routes says nothing of any of them.
        """
        fair = self.spans.fair
        launching = tuple(r for r in fair if bool(self.links.launches[self.runtime_of(r)].any()))
        spent: Counter[str] = Counter()
        for request in launching or fair:
            spent[request.route] += request.wall
        route = max(spent, key=lambda route: spent[route], default="")
        return tuple(r for r in launching or fair if r.route == route)

    @cached_property
    def sync_by_link(self) -> Ints:
        """Rows of ``trace.sync`` sorted by correlation."""
        return np.argsort(self.trace.sync.link, kind="stable")

    @cached_property
    def device_lanes(self) -> frozenset[int]:
        """Lanes on which a device worked."""
        return frozenset(distinct(self.trace.device.lane).tolist())

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
    """Start and end of the window: the agent's, else the span of the events."""
    if trace.tracks is not None and trace.tracks.capture.end_unix_ns > trace.tracks.capture.start_unix_ns > 0:
        capture = trace.tracks.capture
        return trace.local(capture.start_unix_ns), trace.local(capture.end_unix_ns)
    return 0, trace.end_ns
