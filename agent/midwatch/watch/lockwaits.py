"""From single looks at threads that wait for locks to waits with a beginning and an end."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from functools import partial
from types import FrameType

from midwatch.clock import Clock
from midwatch.guard import guard
from midwatch.model.samples import LockWait
from midwatch.watch.frames import Frames, current_frames, look
from midwatch.watch.lockprobe import LockProbe, Sighting
from midwatch.watch.snapshot import snapshot
from midwatch.watch.stacks import Stack, Stacks
from midwatch.watch.threads import describe

_FIRST_RETRY_NS = 4_000_000
_MAX_FINISHED = 256
_MAX_OPEN = 256


class _Wait:
    """One thread at one place that may be a lock. Times are `Clock.perf_ns`."""

    __slots__ = (
        "holder", "holder_name", "holder_thread", "ident", "retry_ns", "seen_ns", "sighting", "since_ns", "stack",
        "thread_id",
    )  # fmt: skip

    def __init__(self, ident: int, stack: Stack, since_ns: int) -> None:
        self.ident = ident
        self.thread_id = describe(ident).native_id
        self.stack = stack
        self.since_ns = since_ns
        self.seen_ns = since_ns
        self.retry_ns = 0
        self.sighting: Sighting | None = None
        self.holder: Stack = ()
        self.holder_thread = 0
        self.holder_name = ""


class LockWaits:
    """Fed by one sampling thread with each stack it takes; asked by any."""

    def __init__(
        self,
        stacks: Stacks,
        probe: LockProbe,
        clock: Clock,
        *,
        redact: bool = False,
        frames: Frames = current_frames,
    ) -> None:
        self._stacks = stacks
        self._probe = probe
        self._clock = clock
        self._redact = redact
        self._frames = frames
        self._open: dict[int, _Wait] = {}
        self._finished: deque[_Wait] = deque(maxlen=_MAX_FINISHED)

    def looked(self, ident: int, stack: Stack, since_ns: int, now_ns: int) -> None:
        """Take in the stack of thread ``ident``, taken at ``now_ns``.

        ``since_ns`` is when the thread was looked at before, or when its request began: the earliest that a wait seen
        now for the first time is taken to have begun.
        """
        wait = self._open.get(ident)
        if wait is not None and wait.stack != stack:
            self._close(ident)
            wait = None
        if not stack or not stack[0].at_lock:
            return
        if wait is None:
            if len(self._open) >= _MAX_OPEN:
                return
            wait = self._open[ident] = _Wait(ident, stack, since_ns)
        wait.seen_ns = now_ns
        if now_ns >= wait.retry_ns and (wait.sighting is None or not wait.sighting.holder_ident):
            wait.retry_ns = now_ns + max(_FIRST_RETRY_NS, now_ns - wait.since_ns)
            guard.call("lockprobe", look, partial(self._find_holder, wait), self._frames, default=None)

    def finish(self) -> None:
        """End all waits, as when sampling stops."""
        for ident in tuple(self._open):
            self._close(ident)

    def between(self, start_ns: int, end_ns: int, idents: Collection[int] | None = None) -> tuple[LockWait, ...]:
        """Return the waits of these threads (None: of all) that overlap a time; open ones up to the last look."""
        waits = snapshot(lambda: [*self._finished, *self._open.values()])
        chosen = [
            wait
            for wait in waits
            if wait.sighting is not None
            and wait.since_ns < end_ns
            and wait.seen_ns > start_ns
            and (idents is None or wait.ident in idents)
        ]
        return tuple(self._value(wait) for wait in sorted(chosen, key=lambda wait: wait.since_ns))

    def _find_holder(self, wait: _Wait, frames: Mapping[int, FrameType]) -> None:
        sighting = self._probe.probe(wait.ident, frames)
        if sighting is None:
            return
        wait.sighting = sighting
        if sighting.holder_ident:
            holder = describe(sighting.holder_ident, redact=self._redact)
            wait.holder = self._stacks.walk(frames.get(sighting.holder_ident))
            wait.holder_thread, wait.holder_name = holder.native_id, holder.name

    def _close(self, ident: int) -> None:
        wait = self._open.pop(ident)
        if wait.sighting is not None:
            self._finished.append(wait)

    def _value(self, wait: _Wait) -> LockWait:
        return LockWait(
            unix_ns=self._clock.to_unix(wait.since_ns),
            duration_ns=wait.seen_ns - wait.since_ns,
            thread_id=wait.thread_id,
            waiter=self._stacks.frames(wait.stack),
            lock=wait.sighting.lock if wait.sighting is not None else "",
            holder_thread_id=wait.holder_thread,
            holder_thread_name=wait.holder_name,
            holder=self._stacks.frames(wait.holder),
        )
