"""Stack samples of the agent's, by thread and time: the witnesses that know the exact line."""

from __future__ import annotations

import builtins
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from midwatch.model.blame import own_frames
from midwatch.model.idle import is_idle
from midwatch.model.site import Frame, Site
from midwatch.trace.frames import BLOCKING, LOCKING
from midwatch.trace.intervals import Ints
from midwatch.trace.load import Trace

if TYPE_CHECKING:
    from midwatch.model.tracks import Tracks

_TAKES_WORK = frozenset({"get"})
"""Calls of a queue written in C, which leave no frame of their own while a worker waits for its next job."""
_FAR_NS = 86_400_000_000_000
"""A day: no sample stands so far from its trace, nor for so long."""
_HANDS_OVER = frozenset({"put"})
"""A queue written in C never makes who puts wait, nor is an event loop slow to be woken: what is waited for there is
the interpreter."""
_CLIENTS = frozenset({"grpc", "http", "httpcore", "httpx", "requests", "selectors", "socket", "ssl", "urllib3"})
"""Packages in whose frames a request waits for a service, a database or another process: none of an event loop."""
EDGE_NS = 40_000
"""So near to the end of a pause the call that ends it has begun already, and has let the sampler through."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one stack says: the site of its innermost frame of the service's own, and what the host was doing."""

    site: Site | None
    host: str
    """``python``, ``ops``, ``blocked``, ``lock``, ``unknown`` or ``idle`` (an event loop or a worker without work)."""
    chain: tuple[Site, ...] = ()
    """All frames of the service's own, the innermost first."""
    rests: Site | None = None
    """Where an idle thread waits, in the service's own code."""
    outside: bool = False
    """True where it waits for something outside of this process, and not for another thread."""


@dataclass(frozen=True, slots=True)
class ThreadSamples:
    """Samples of one thread in order of time.

    ``since`` is the time of the sample before, ``due`` the time at which the sampler meant to look: it looked later
    where somebody held the interpreter.
    """

    at: Ints
    since: Ints
    due: Ints
    stack: Ints

    def within(self, start: int, end: int) -> list[int]:
        """Stacks of the samples taken between two times, both included."""
        first = int(np.searchsorted(self.at, start, side="left"))
        stacks: list[int] = self.stack[first : int(np.searchsorted(self.at, end, side="right"))].tolist()
        return stacks

    def during(self, start: int, end: int) -> dict[int, int]:
        """Stacks seen well inside two times, with the nanoseconds that each stands for between them.

        A sample stands for the time back to the one before it, the last one also for what follows it, if that is no
        longer. One taken at the very end says who let go of the interpreter then, and not what ran before.
        """
        first, last = np.searchsorted(self.at, [start, end - EDGE_NS], side="left").tolist()
        found: dict[int, int] = {}
        for i in range(first, last):
            reach = int(self.at[i]) - max(int(self.since[i]), start)
            stack = int(self.stack[i])
            found[stack] = found.get(stack, 0) + max(reach, 1)
        if found:
            rest = end - int(self.at[last - 1])
            if rest <= sum(found.values()):
                found[int(self.stack[last - 1])] += rest
        return found

    def late(self, start: int, end: int) -> int:
        """The stack first seen after a stretch in which the interpreter was never free for a look, -1 for none."""
        first = int(np.searchsorted(self.at, end - EDGE_NS, side="left"))
        if first == len(self.at) or int(self.since[first]) > start or int(self.due[first]) > end - EDGE_NS:
            return -1
        return int(self.stack[first])


class Samples:
    """All samples of a trace."""

    def __init__(self, trace: Trace) -> None:
        tracks = trace.tracks
        self._threads: dict[int, ThreadSamples] = {}
        self.seen: list[Seen] = []
        if tracks is None or not tracks.samples:
            return
        names = (trace.names[n] for n in np.unique(trace.ops.name).tolist())
        operators = {name.removeprefix("aten::") for name in names if name.startswith("aten::")} - set(dir(builtins))
        self.seen = [_seen(_frames(tracks, stack), operators) for stack in tracks.stacks]
        rows = sorted(tracks.samples, key=lambda row: row.unix_ns)
        by_thread: dict[int, list[tuple[int, int, int, int]]] = {}
        for row in rows:
            at = trace.local(row.unix_ns)
            if max(abs(at), abs(row.weight_ns), abs(row.late_ns)) > _FAR_NS or not 0 <= row.stack < len(self.seen):
                continue  # a damaged file: no time of this trace, or a stack that it does not hold
            by_thread.setdefault(row.thread_id, []).append((at, at - row.weight_ns, at - row.late_ns, row.stack))
        for thread, seen in by_thread.items():
            self._threads[thread] = ThreadSamples(*np.array(seen, np.int64).T)

    def __bool__(self) -> bool:
        return bool(self._threads)

    def of(self, thread_id: int) -> ThreadSamples | None:
        """Samples of one thread, None where it was not sampled."""
        return self._threads.get(thread_id)


def _frames(tracks: Tracks, stack: tuple[int, ...]) -> tuple[Frame, ...]:
    count = len(tracks.frames)
    return tuple(tracks.frames[i] for i in stack if 0 <= i < count)


def _seen(frames: tuple[Frame, ...], operators: AbstractSet[str]) -> Seen:
    """Read one stack; ``operators`` are the names of the operators that the trace holds."""
    own = own_frames(frames)
    chain = tuple(_site(frame, "sample") for _, frame in own)
    if not frames or is_idle(frames) or (own and own[0][0] == 0 and frames[0].callee in _TAKES_WORK):
        return Seen(None, "idle", rests=chain[0] if chain else None, outside=bool(own) and _asks(frames[: own[0][0]]))
    if not chain:
        return Seen(None, "python")
    inner = frames[0]
    if inner.module.partition(".")[0] == "torch" or chain[0].callee in operators:
        return Seen(chain[0], "ops", chain)
    if inner.function.endswith("._write_to_self") or (own[0][0] == 0 and inner.callee in _HANDS_OVER):
        return Seen(chain[0], "unknown", chain)
    for kind, known in (("lock", LOCKING), ("blocked", BLOCKING)):
        if inner.callee in known or chain[0].callee in known:
            return Seen(chain[0], kind, chain)
    return Seen(chain[0], "python", chain)


def _asks(inner: tuple[Frame, ...]) -> bool:
    """Return whether what the service has called, the innermost frame first, asks something outside of the process."""
    modules = (frame.module for frame in inner)
    return any(name.partition(".")[0] in _CLIENTS or name == "multiprocessing.connection" for name in modules)


def site_of(frames: tuple[Frame, ...], how: str) -> Site | None:
    """Site of the innermost frame of the service's own, None where the stack holds none."""
    own = own_frames(frames)
    return _site(own[0][1], how) if own else None


def _site(frame: Frame, how: str) -> Site:
    return Site(frame.file, frame.line, frame.function, frame.module, exact=True, how=how, callee=frame.callee)
