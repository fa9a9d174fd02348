"""What the watchdog saw, kept in bounded buffers, and made into samples when somebody asks about one request."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from midwatch.clock import Clock
from midwatch.drops import drops
from midwatch.model.samples import LockWait, StackSample
from midwatch.model.tracks import ThreadName
from midwatch.watch.protocols import InFlight
from midwatch.watch.snapshot import snapshot
from midwatch.watch.stacks import Stack, Stacks
from midwatch.watch.threads import describe

_MAX_LOOKS = 4096
_MAX_WATCHED = 1024
_MAX_SAMPLES = 64
_MAX_OTHERS = 32


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen while a request was overdue."""

    samples: tuple[StackSample, ...] = ()
    locks: tuple[LockWait, ...] = ()


class Look(NamedTuple):
    """One thread's stack at one time. ``before_ns`` is when that thread was looked at before, 0 for never."""

    at_ns: int
    before_ns: int
    late_ns: int
    ident: int
    unit: bool
    stack: Stack


class Looks:
    """Written by the watchdog alone, read by any thread."""

    def __init__(self, stacks: Stacks, clock: Clock, *, redact: bool = False) -> None:
        self._stacks = stacks
        self._clock = clock
        self._redact = redact
        self._looks: deque[Look] = deque(maxlen=_MAX_LOOKS)
        self._until_ns: dict[int, int] = {}
        """By request: the last look at which it was overdue and in flight."""
        self._last_ns: dict[int, int] = {}
        self._threads: dict[int, ThreadName] = {}
        """As they were called when they were looked at: many end before anybody asks."""

    def add(self, ident: int, stack: Stack, now_ns: int, late_ns: int, *, unit: bool) -> int:
        """Keep one look; return when the thread was looked at before, 0 for never."""
        before_ns = self._last_ns.get(ident, 0)
        if not before_ns:
            for known in (self._last_ns, self._threads):
                if len(known) >= _MAX_LOOKS:
                    known.clear()
            self._threads[ident] = describe(ident, redact=self._redact)
        self._last_ns[ident] = now_ns
        self._looks.append(Look(now_ns, before_ns, late_ns, ident, unit, stack))
        return before_ns

    def overdue(self, request: InFlight, now_ns: int) -> None:
        """Note that a request was overdue and in flight at the look of ``now_ns``."""
        if request.request_id not in self._until_ns and len(self._until_ns) >= _MAX_WATCHED:
            self._until_ns.pop(next(iter(self._until_ns)))
        self._until_ns[request.request_id] = now_ns

    def knows(self, request: InFlight) -> bool:
        """Return whether a request has been seen overdue before."""
        return request.request_id in self._until_ns

    def forget_threads(self) -> None:
        """Forget when threads were looked at: idents are used again, and an old time says nothing."""
        self._last_ns.clear()

    def samples(self, request: InFlight, end_ns: int) -> tuple[tuple[StackSample, ...], frozenset[int]]:
        """Return the samples of a request that ended at ``end_ns``, by time, and the threads that worked for it.

        At most 64, and 32 of other threads. A thread that runs units works for the request only while the request's
        own thread waits. A late look counts for other threads even where it came after the end: it was due before.
        """
        own, start_ns = request.thread_ident, request.start_ns
        until_ns = self._until_ns.get(request.request_id, 0)
        looks = [look for look in snapshot(lambda: list(self._looks)) if look.stack and look.at_ns > start_ns]
        waiting = {look.at_ns for look in looks if look.ident == own and look.stack[0].idle}
        near: list[StackSample] = []
        beside: list[StackSample] = []
        for look in looks:
            at_ns, since_ns = min(look.at_ns, end_ns), max(look.before_ns, start_ns)
            timely = look.at_ns <= until_ns
            if look.ident == own:
                if timely:
                    near.append(self._sample(look, "request", at_ns - since_ns, request))
            elif timely and look.unit and (request.is_async or look.at_ns in waiting):
                near.append(self._sample(look, "unit", at_ns - since_ns, request))
            elif look.at_ns - look.late_ns < end_ns and at_ns > since_ns:
                beside.append(self._sample(look, "other", at_ns - since_ns, request))
        chosen = _condense(near, _MAX_SAMPLES) + _condense(beside, _MAX_OTHERS)
        idents = frozenset({own} | {sample.thread_ident for sample in near})
        return tuple(sorted(chosen, key=lambda sample: sample.unix_ns)), idents

    def _sample(self, look: Look, role: str, weight_ns: int, request: InFlight) -> StackSample:
        thread = self._threads.get(look.ident) or ThreadName(0, look.ident, "")
        return StackSample(
            unix_ns=self._clock.to_unix(look.at_ns),
            thread_id=thread.native_id,
            thread_ident=look.ident,
            thread_name=thread.name,
            role=role,
            frames=self._stacks.frames(look.stack),
            weight_ns=weight_ns,
            late_ns=look.late_ns,
            request_id=request.request_id,
        )


def _condense(samples: list[StackSample], limit: int) -> list[StackSample]:
    """Return at most ``limit`` samples: looks at one unchanged stack become one, then the lightest are left out."""
    if len(samples) <= limit:
        return samples
    merged: list[StackSample] = []
    by_thread = sorted(samples, key=lambda sample: (sample.thread_ident, sample.unix_ns))
    for _, group in groupby(by_thread, key=lambda sample: (sample.thread_ident, sample.frames)):
        merged.append(_merge(group))
    heaviest = sorted(merged, key=lambda sample: sample.weight_ns, reverse=True)
    if len(heaviest) > limit:
        drops.drop("samples_of_one_request", len(heaviest) - limit)
    return heaviest[:limit]


def _merge(group: Iterable[StackSample]) -> StackSample:
    samples = list(group)
    return replace(
        samples[-1],
        weight_ns=sum(sample.weight_ns for sample in samples),
        late_ns=max(sample.late_ns for sample in samples),
    )
