"""Who was running on a thread at a time: samples first, since they know the line, else ``python_function`` events."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from midwatch.model.site import Site
from midwatch.trace.frames import BLOCKING, LOCKING, RESUMED, builtin_name, is_own, parse_python_name, waiting_call
from midwatch.trace.load import Trace
from midwatch.trace.pystacks import Steps, per_lane
from midwatch.trace.samples import Samples

_SHORTLY_NS = 2_000_000
_MOST_OF = 0.8
"""A function that holds this share of the launches is the one that makes them."""


@dataclass(frozen=True, slots=True)
class Vote:
    """One site, what the host did there, and for how many nanoseconds."""

    site: Site | None
    host: str
    weight: int


class Sites:
    """Answers for one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.samples = Samples(trace)

    @cached_property
    def _users(self) -> dict[int, Steps]:
        def wanted(number: int) -> bool:
            parsed = parse_python_name(self._trace.names[number])
            return parsed is not None and is_own(parsed)

        return per_lane(self._trace.python, wanted)

    @cached_property
    def _calls(self) -> dict[int, Steps]:
        known = BLOCKING | LOCKING
        return per_lane(self._trace.python, lambda number: builtin_name(self._trace.names[number]) in known)

    @cached_property
    def _waiting(self) -> dict[int, Steps]:
        return per_lane(self._trace.python, lambda number: bool(waiting_call(self._trace.names[number])))

    @cached_property
    def _resumes(self) -> dict[int, Steps]:
        def wanted(number: int) -> bool:
            parsed = parse_python_name(self._trace.names[number])
            return parsed is not None and bool(RESUMED.match(parsed.function))

        return per_lane(self._trace.python, wanted)

    def votes(self, thread_id: int, lanes: tuple[int, ...], start: int, end: int) -> list[Vote]:
        """Sites seen between two times, the heaviest first; empty where there is no witness."""
        return self._sampled(thread_id, start, end) or self._traced(lanes, start, end)

    def seen(self, thread_id: int, start: int, end: int) -> Counter[Site]:
        """Lines that samples saw between two times, and how often."""
        thread = self.samples.of(thread_id)
        stacks = thread.within(start, end) if thread is not None else []
        return Counter(site for stack in stacks if (site := self.samples.seen[stack].site) is not None)

    def late(self, thread_id: int, start: int, end: int) -> tuple[Site, ...]:
        """Frames of the service's own that were under way when a thread let go of the interpreter it had held."""
        thread = self.samples.of(thread_id)
        stack = thread.late(start, end) if thread is not None else -1
        return self.samples.seen[stack].chain if stack >= 0 else ()

    def calling(self, lanes: tuple[int, ...], time: int) -> Site | None:
        """As `at`, with the call that waits for the device, where the trace holds it."""
        site = self.at(lanes, time)
        if site is None:
            return None
        steps = [self._waiting[lane] for lane in lanes if lane in self._waiting]
        rows = [row for row in (step.when(time) for step in steps) if row >= 0]
        name = self._trace.names[int(self._trace.python.name[rows[0]])] if rows else ""
        return replace(site, callee=waiting_call(name))

    def at(self, lanes: tuple[int, ...], time: int) -> Site | None:
        """The function of the service's own that was running, from ``python_function`` events."""
        for lane in lanes:
            steps = self._users.get(lane)
            if steps is not None:
                row = steps.when(time)
                if row >= 0:
                    return self._function(row)
        return None

    def resumed(self, lane: int, time: int) -> Site | None:
        """The line of a graph break, where ``time`` begins the compiled code that resumes after it."""
        steps = self._resumes.get(lane)
        row = steps.after(time) if steps is not None else -1
        site = self._function(row) if row >= 0 else None
        told = RESUMED.match(site.function) if site is not None else None
        return replace(site, line=int(told["line"]), function=told["function"], exact=True) if site and told else None

    def launching(self, thread_id: int, lane: int, start: int, end: int) -> Site | None:
        """Who made a launch call: the function under way, or the line last seen shortly before; never exact."""
        thread = self.samples.of(thread_id)
        if thread is not None:
            first = int(np.searchsorted(thread.at, start - _SHORTLY_NS))
            last = int(np.searchsorted(thread.at, end, side="right"))
            for i in range(last - 1, first - 1, -1):
                site = self.samples.seen[int(thread.stack[i])].site
                if site is not None:
                    return replace(site, exact=False)
        return self.at((lane,), start)

    def around(self, thread_id: int, lanes: tuple[int, ...], moments: list[int]) -> Site | None:
        """The innermost function of the service's own that was under way at most of the moments, in order of time.

        With samples it is the function, and in it the line, that was seen most between the first and the last.
        """
        if not moments:
            return None
        thread = self.samples.of(thread_id)
        if thread is not None:
            seen = thread.during(moments[0], moments[-1] + 1)
            found = common([(self.samples.seen[stack].chain, weight) for stack, weight in seen.items()])
            if found is not None:
                return found
        for lane in lanes:
            steps = self._users.get(lane)
            if steps is None:
                continue
            held: dict[int, int] = defaultdict(int)
            for innermost, count in steps.counted(moments).items():
                for row in steps.chain(innermost):
                    held[row] += count
            most = [row for row, count in held.items() if count >= _MOST_OF * len(moments)]
            if most:
                return self._function(max(most, key=lambda row: int(self._trace.python.start[row])))
        return None

    def _sampled(self, thread_id: int, start: int, end: int) -> list[Vote]:
        thread = self.samples.of(thread_id)
        if thread is None:
            return []
        weights: dict[tuple[Site | None, str], int] = defaultdict(int)
        for stack, weight in thread.during(start, end).items():
            seen = self.samples.seen[stack]
            weights[seen.site, seen.host] += weight
        return _ranked(weights)

    def _traced(self, lanes: tuple[int, ...], start: int, end: int) -> list[Vote]:
        weights: dict[tuple[Site | None, str], int] = defaultdict(int)
        for lane in lanes:
            steps = self._users.get(lane)
            if steps is None:
                continue
            for row, weight in steps.weights(start, end).items():
                a, b = int(self._trace.python.start[row]), int(self._trace.python.end[row])
                weights[self._function(row), self._activity(lane, max(start, a), min(end, b))] += weight
        return _ranked(weights)

    def _activity(self, lane: int, start: int, end: int) -> str:
        steps = self._calls.get(lane)
        if steps is None:
            return "python"
        held = {"lock": 0, "blocked": 0}
        for row, weight in steps.weights(start, end).items():
            name = builtin_name(self._trace.names[int(self._trace.python.name[row])])
            held["lock" if name in LOCKING else "blocked"] += weight
        kind = max(held, key=lambda key: held[key])
        return kind if held[kind] * 2 > end - start else "python"

    def _function(self, row: int) -> Site | None:
        parsed = parse_python_name(self._trace.names[int(self._trace.python.name[row])])
        if parsed is None:
            return None
        return Site(parsed.file, parsed.line, parsed.function, exact=False, how="python_function")


def common(chains: list[tuple[tuple[Site, ...], int]]) -> Site | None:
    """The innermost function that most of the weight has in common, at the line that has most of it."""
    total = sum(weight for chain, weight in chains if chain)
    depth: dict[tuple[str, str], int] = {}
    held: dict[tuple[str, str], int] = defaultdict(int)
    lines: dict[Site, int] = defaultdict(int)
    for chain, weight in chains:
        seen = set()
        for i, site in enumerate(chain):
            key = (site.file, site.function)
            if key not in seen:
                seen.add(key)
                held[key] += weight
                lines[site] += weight
                depth[key] = max(depth.get(key, 0), len(chain) - i)
    most = [key for key, weight in held.items() if weight >= _MOST_OF * total]
    if not most:
        return None
    chosen = max(most, key=lambda key: depth[key])
    return max((s for s in lines if (s.file, s.function) == chosen), key=lambda s: lines[s])


def _ranked(weights: dict[tuple[Site | None, str], int]) -> list[Vote]:
    votes = [Vote(site, host, weight) for (site, host), weight in weights.items()]
    return sorted(votes, key=lambda vote: -vote.weight)
