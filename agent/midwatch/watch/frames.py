"""Frames of other threads, without a deadlock and a crash of CPython 3.11.

There frame objects are made when somebody asks for them, and making an object may start a garbage collection, which
may run Python code (finalisers, `gc.callbacks`) and let other threads run. Two calls do not bear that:

* `sys._current_frames` holds the interpreter's list lock meanwhile. If the collection frees a `threading.local`, the
  same thread asks for the same lock again, with the GIL in its hands: the process stands still for good.
* ``f_back`` and ``f_locals`` of a frame of another thread keep a pointer into that thread's stack. If that thread
  runs on and returns, they read, and write, what lies there now: ``f_back`` gave a function once, and worse can come.

So no collection may start inside of these calls. (3.10 makes no objects there, and from 3.12 on collections start
between instructions only.)

Switching the collector off and on must not be torn apart by another thread, or the host's own `gc.disable` in between
would be undone. A thread is only ever left between two instructions of byte code, so the steps run as one call into C:
`takewhile` draws them from `map`, and stops after the first where the collector is off already.

A frame that is held when its function returns keeps all its locals, tensors on the device among them. And the frames
of all threads include the looker's own, whose locals hold the very dictionary they are in: a cycle, so that every
frame that returned meanwhile lives until the next collection (140 tensors after a second of looking, where the host
had 3). So frames are borrowed: `look` empties the dictionary at the end, whoever still refers to it.
"""

from __future__ import annotations

import gc
import operator
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate, repeat, takewhile
from types import CodeType, FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_TRIES = 8
_GUARDED = sys.version_info[:2] == (3, 11)
_place: Any = operator.attrgetter("f_code", "f_lasti", "f_globals")
_is_frame = partial(operator.is_not, None)

Place = tuple[CodeType, int, "dict[str, Any]"]
"""Code, index of the instruction and global variables of a frame."""

Frames = Callable[[], "dict[int, FrameType]"]
_list_frames: Frames = sys._current_frames  # noqa: SLF001 - there is no other way


def current_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each other thread, by its ident. For `look`, which lets go of them."""
    frames: dict[int, FrameType] = _undisturbed(_list_frames, {})
    frames.pop(threading.get_ident(), None)
    return frames


def look(read: Callable[[Mapping[int, FrameType]], T], frames: Frames = current_frames) -> T:
    """Return what ``read`` makes of the innermost frame of each other thread, and let go of all frames.

    ``read`` must be short and keep no frame: as long as it runs, nothing is freed that a frame holds.
    """
    found = frames()
    try:
        return read(found)
    finally:
        found.clear()


def places(frame: FrameType | None, depth: int) -> list[Place]:
    """Return where ``frame`` and its callers stand, innermost first, ``depth`` of them at most.

    All of them at one moment, since no other thread gets a turn; and no frame is held any longer than that.
    """
    if frame is None:
        return []
    chain: Any = accumulate(repeat("f_back", depth - 1), getattr, initial=frame)
    return _undisturbed(partial(list, map(_place, takewhile(_is_frame, chain))), [])


def caller(frame: FrameType) -> FrameType | None:
    """Return ``frame.f_back``, of a frame of any thread."""
    back: FrameType | None = _undisturbed(partial(getattr, frame, "f_back"), None)
    return back


def local_variables(frame: FrameType) -> Mapping[str, Any]:
    """Return ``frame.f_locals``, of a frame of any thread."""
    return _undisturbed(partial(getattr, frame, "f_locals"), {})


def _undisturbed(read: Callable[[], T], default: T) -> T:
    """Return what ``read`` gives, which must be C to the ground; ``default`` where no quiet moment was found."""
    return _without_collection(read, default) if _GUARDED else read()


def _without_collection(read: Callable[[], T], default: T) -> T:
    call: Any = getattr(operator, "call", None)  # from 3.11 on
    unless_off, unless_on = partial(operator.is_not, False), partial(operator.is_not, True)
    while_on = (gc.isenabled, gc.disable, read, gc.enable)
    for _ in range(_TRIES):
        try:
            done: list[Any] = list(takewhile(unless_off, map(call, while_on)))
        except Exception:
            gc.enable()  # only reading can fail, and the collector was on
            raise
        if done:
            return done[2]  # type: ignore[no-any-return]
        done = list(takewhile(unless_on, map(call, (gc.isenabled, read))))
        if done:
            return done[1]  # type: ignore[no-any-return]
    return default
