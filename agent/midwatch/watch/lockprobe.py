"""Who holds the lock that a thread waits for. Looks only: no lock is taken, and no code of the host's runs."""

from __future__ import annotations

import _thread
import re
import threading
from collections.abc import Mapping
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import NamedTuple

from midwatch.watch import peek
from midwatch.watch.access import acquired
from midwatch.watch.frames import caller
from midwatch.watch.held import Held, held_in, holds_at
from midwatch.watch.stacks import DEPTH

_LOCK = type(_thread.allocate_lock())
_RLOCK = _thread.RLock
_PY_RLOCK: type = getattr(threading, "_PyRLock", _RLOCK)
_KINDS: tuple[tuple[type, str], ...] = (
    (_LOCK, "Lock"),
    (_RLOCK, "RLock"),
    (_PY_RLOCK, "RLock"),
    (threading.Condition, "Condition"),
)
_CONDITION_WAIT = getattr(threading.Condition.wait, "__code__", None)
_OWNER = re.compile(r"^<locked .* owner=(\d+) ")
_MAX_CODES = 4096
_BUDGET_NS = 2_000_000
"""For one search of all threads. What was read of the code is kept, so the next search gets further."""


class Sighting(NamedTuple):
    """A thread seen waiting for a lock."""

    lock: str
    """Kind and name, as in `LockWait.lock`."""
    holder_ident: int
    """The thread that holds it, 0 where that is not known."""


class LockProbe:
    """Finds the lock that a thread waits for, and its holder, in one set of frames."""

    def __init__(self) -> None:
        # By the identity of the code object, which the value keeps alive.
        self._held: dict[int, tuple[CodeType, tuple[Held, ...]]] = {}

    def probe(self, ident: int, frames: Mapping[int, FrameType]) -> Sighting | None:
        """Return the lock that thread ``ident`` waits for, None where it waits for none that can be told.

        Args:
            ident: the thread's `threading.get_ident`.
            frames: from right now, as `look` gives them.
        """
        found = _awaited(frames.get(ident))
        if found is None:
            return None
        name, kind, lock = found
        owner = _owner(lock)
        if owner < 0:
            owner = self._search(lock, ident, frames)
        return Sighting(f"{kind} {name}", owner) if owner != ident else None

    def _search(self, lock: object, waiter: int, frames: Mapping[int, FrameType]) -> int:
        """Return the ident of the thread that stands in code that holds ``lock``, 0 where none is found."""
        end_ns = perf_counter_ns() + _BUDGET_NS
        for ident, top in frames.items():
            if ident != waiter and self._holds(top, lock, end_ns):
                return ident
            if perf_counter_ns() > end_ns:
                break
        return 0

    def _holds(self, frame: FrameType | None, lock: object, end_ns: int) -> bool:
        waits_on: FrameType | None = None
        for _ in range(DEPTH):
            if frame is None or perf_counter_ns() > end_ns:
                return False
            code = frame.f_code
            held = self._code(code)
            for access in holds_at(held, code.co_code, frame.f_lasti) if held else ():
                value = access.resolve(frame)
                if value is lock or _inner(value) is lock:
                    # Inside `Condition.wait` of this very condition its lock is free.
                    return waits_on is None or _inner(peek.variable(waits_on, "self", local=True)) is not lock
            if code is _CONDITION_WAIT:
                waits_on = frame
            frame = caller(frame)
        return False

    def _code(self, code: CodeType) -> tuple[Held, ...]:
        known = self._held.get(id(code))
        if known is None:
            if len(self._held) >= _MAX_CODES:
                self._held.clear()
            known = self._held[id(code)] = (code, held_in(code))
        return known[1]


def _awaited(frame: FrameType | None) -> tuple[str, str, object] | None:
    """Return name, kind and lock of what the thread with this innermost frame waits for.

    A condition or a re-entrant lock in Python puts frames of `threading` on top: the name is the caller's.
    """
    for _ in range(4):
        access = acquired(frame.f_code, frame.f_lasti) if frame is not None else None
        if frame is None or access is None:
            return None
        value = access.resolve(frame)
        kind = _kind(value)
        if not kind:
            return None
        if dict.get(frame.f_globals, "__name__") != "threading":
            lock = _inner(value)
            return (access.text, kind, lock) if _locked(lock) else None
        frame = caller(frame)
    return None


def _kind(value: object) -> str:
    """Return what kind of lock ``value`` is, by its exact type: a subclass may do anything."""
    return next((name for cls, name in _KINDS if type(value) is cls), "")


def _inner(value: object) -> object:
    """Return the lock inside a condition, else ``value`` itself."""
    return dict.get(peek.instance_dict(value), "_lock") if type(value) is threading.Condition else value


def _locked(lock: object) -> bool:
    if type(lock) is _LOCK:
        return lock.locked()
    return _owner(lock) > 0


def _owner(lock: object) -> int:
    """Return the ident of the thread that owns a re-entrant lock, 0 for a free one, -1 for a lock that knows none."""
    if type(lock) is _RLOCK:
        match = _OWNER.match(repr(lock))
        return int(match[1]) if match is not None else 0
    if type(lock) is _PY_RLOCK:
        owner = dict.get(peek.instance_dict(lock), "_owner")
        return owner if type(owner) is int else 0
    return -1
