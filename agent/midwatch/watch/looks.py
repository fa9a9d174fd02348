"""What the watchdog saw, kept in bounded buffers, and made into samples when somebody asks about one request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import NamedTuple

from midwatch.clock import Clock
from midwatch.drops import drops
from midwatch.manners import GiveWay
from midwatch.model.samples import LockWait, StackSample
from midwatch.model.tracks import ThreadName
from midwatch.watch.cputimes import Runner
from midwatch.watch.protocols import InFlight
from midwatch.watch.snapshot import snapshot
from midwatch.watch.stacks import Stack, Stacks
from midwatch.watch.threads import describe

_MAX_LOOKS = 4096
_MAX_WATCHED = 1024
_MAX_LATE = 64
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
        self._alone: dict[int, Runner] = {}
        """By the time of a late look: the thread that alone had run meanwhile."""

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

    def ran_alone(self, at_ns: int, runner: Runner) -> None:
        """Note which thread alone had run when the late look of ``at_ns`` came."""
        while len(self._alone) >= _MAX_LATE:
            self._alone.pop(next(iter(self._alone)))
        self._alone[at_ns] = runner

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
        give_way = GiveWay(self._clock)
        own, start_ns = request.thread_ident, request.start_ns
        until_ns = self._until_ns.get(request.request_id, 0)
        looks = self._since(start_ns)
        waiting = {look.at_ns for look in looks if look.ident == own and look.stack[0].idle}
        near: list[_Seen] = []
        beside: list[_Seen] = []
        for look in looks:
            give_way()
            at_ns, since_ns = min(look.at_ns, end_ns), max(look.before_ns, start_ns)
            if at_ns <= since_ns:  # all that it stands for came after the end
                continue
            timely = look.at_ns <= until_ns
            if look.ident == own:
                if timely:
                    near.append(_Seen(look, "request", at_ns - since_ns, look.late_ns))
            elif timely and look.unit and (request.is_async or look.at_ns in waiting):
                near.append(_Seen(look, "unit", at_ns - since_ns, look.late_ns))
            elif look.at_ns - look.late_ns < end_ns:
                beside.append(_Seen(look, "other", at_ns - since_ns, look.late_ns))
        idents = frozenset({own} | {seen.look.ident for seen in near})
        chosen = _condense(near, _MAX_SAMPLES) + _condense(beside, _MAX_OTHERS)
        chosen.sort(key=lambda seen: seen.look.at_ns)
        return tuple([self._sample(seen, request, give_way) for seen in chosen]), idents

    def _since(self, start_ns: int) -> list[Look]:
        """Return the looks that found something after ``start_ns``, the oldest first."""
        recent = takewhile(lambda look: look.at_ns > start_ns, reversed(snapshot(lambda: list(self._looks))))
        return [look for look in recent if look.stack][::-1]

    def _sample(self, seen: _Seen, request: InFlight, give_way: Callable[[], None]) -> StackSample:
        look = seen.look
        thread = self._threads.get(look.ident) or ThreadName(0, look.ident, "")
        return StackSample(
            unix_ns=self._clock.to_unix(look.at_ns),
            thread_id=thread.native_id,
            thread_ident=look.ident,
            thread_name=thread.name,
            role=seen.role,
            frames=self._stacks.frames(look.stack, give_way),
            weight_ns=seen.weight_ns,
            late_ns=seen.late_ns,
            request_id=request.request_id,
            ran_ns=self._ran_ns(look),
        )

    def _ran_ns(self, look: Look) -> int:
        """Return for how long, at least, the thread of a late look alone ran meanwhile; 0 where that is not known."""
        runner = self._alone.get(look.at_ns)
        return runner.ran_ns if runner is not None and runner.ident == look.ident else 0


class _Seen(NamedTuple):
    """A look as a part of one request; not yet named, which is the dear part."""

    look: Look
    role: str
    weight_ns: int
    late_ns: int


def _condense(all_seen: list[_Seen], limit: int) -> list[_Seen]:
    """Return at most ``limit``: looks at one unchanged stack become two, then the lightest are left out.

    Two, since one look alone says who was where at its end, and not for how long.
    """
    if len(all_seen) <= limit:
        return all_seen
    by_thread = sorted(all_seen, key=lambda seen: (seen.look.ident, seen.look.at_ns))
    merged = [
        _merge(list(group)) for _, group in groupby(by_thread, key=lambda seen: (seen.look.ident, seen.look.stack))
    ]
    merged.sort(key=lambda some: sum(seen.weight_ns for seen in some), reverse=True)
    heaviest = [seen for some in merged for seen in some]
    if len(heaviest) > limit:
        drops.drop("samples_of_one_request", len(heaviest) - limit)
    return heaviest[:limit]


def _merge(group: list[_Seen]) -> list[_Seen]:
    """Return the first look, and the others as one."""
    first, *others = group
    if not others:
        return group
    weight_ns, late_ns = sum(seen.weight_ns for seen in others), max(seen.late_ns for seen in others)
    return [first, others[-1]._replace(weight_ns=weight_ns, late_ns=late_ns)]
