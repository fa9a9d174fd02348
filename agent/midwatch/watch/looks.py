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


class Watched:
    """A request that was seen overdue. ``until_ns`` is the last look at which it was still in flight."""

    __slots__ = ("ident", "is_async", "start_ns", "until_ns")

    def __init__(self, request: InFlight) -> None:
        self.ident = request.thread_ident
        self.is_async = request.is_async
        self.start_ns = self.until_ns = request.start_ns


class Looks:
    """Written by the watchdog alone, read by any thread."""

    def __init__(self, stacks: Stacks, clock: Clock, *, redact: bool = False) -> None:
        self._stacks = stacks
        self._clock = clock
        self._redact = redact
        self._looks: deque[Look] = deque(maxlen=_MAX_LOOKS)
        self._watched: dict[int, Watched] = {}
        self._last_ns: dict[int, int] = {}

    def add(self, ident: int, stack: Stack, now_ns: int, late_ns: int, *, unit: bool) -> int:
        """Keep one look; return when the thread was looked at before, 0 for never."""
        if len(self._last_ns) > _MAX_LOOKS:
            self._last_ns.clear()
        before_ns = self._last_ns.get(ident, 0)
        self._last_ns[ident] = now_ns
        self._looks.append(Look(now_ns, before_ns, late_ns, ident, unit, stack))
        return before_ns

    def overdue(self, request: InFlight, now_ns: int) -> None:
        """Note that a request was overdue and in flight at the look of ``now_ns``."""
        watched = self._watched.get(request.request_id)
        if watched is None:
            if len(self._watched) >= _MAX_WATCHED:
                self._watched.pop(next(iter(self._watched)))
            watched = self._watched[request.request_id] = Watched(request)
        watched.until_ns = now_ns

    def forget_threads(self) -> None:
        """Forget when threads were looked at: idents are used again, and an old time says nothing."""
        self._last_ns.clear()

    def watched(self, request_id: int) -> Watched | None:
        """Return what is known of a request that was overdue, None for others."""
        return self._watched.get(request_id)

    def samples(self, request_id: int, watched: Watched) -> tuple[StackSample, ...]:
        """Return the samples of one request in the order of time: at most 64, and 32 of threads beside it.

        A thread that runs units is near the request only while the request's own thread waits for it.
        """
        looks = [
            look
            for look in snapshot(lambda: list(self._looks))
            if watched.start_ns < look.at_ns <= watched.until_ns and look.stack
        ]
        waiting = {look.at_ns for look in looks if look.ident == watched.ident and look.stack[0].idle}
        near: list[StackSample] = []
        beside: list[StackSample] = []
        for look in looks:
            if look.ident == watched.ident:
                near.append(self._sample(look, "request", request_id, watched))
            elif look.unit and (watched.is_async or look.at_ns in waiting):
                near.append(self._sample(look, "unit", request_id, watched))
            else:
                beside.append(self._sample(look, "other", request_id, watched))
        chosen = _condense(near, _MAX_SAMPLES) + _condense(beside, _MAX_OTHERS)
        return tuple(sorted(chosen, key=lambda sample: sample.unix_ns))

    def _sample(self, look: Look, role: str, request_id: int, watched: Watched) -> StackSample:
        thread = describe(look.ident, redact=self._redact)
        return StackSample(
            unix_ns=self._clock.to_unix(look.at_ns),
            thread_id=thread.native_id,
            thread_ident=look.ident,
            thread_name=thread.name,
            role=role,
            frames=self._stacks.frames(look.stack),
            weight_ns=look.at_ns - max(look.before_ns, watched.start_ns),
            late_ns=look.late_ns,
            request_id=request_id,
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
