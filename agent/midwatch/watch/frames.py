"""The innermost frame of every thread, without a deadlock of CPython 3.11.

There `sys._current_frames` makes frame objects while it holds the interpreter's list lock, and making an object may
start a garbage collection. If that frees a `threading.local`, the same thread asks for the same lock again, with the
GIL in its hands: the process stands still for good. So no collection may start inside the call. (3.10 makes no objects
there, and from 3.12 on collections start between instructions only.)

Switching the collector off and on must not be torn apart by another thread, or the host's own `gc.disable` in between
would be undone. A thread is only ever left between two instructions of byte code, so the steps run as one call into C:
`takewhile` draws them from `map`, and stops after the first where the collector is off already.
"""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile
from types import FrameType
from typing import Any, cast

_TRIES = 8

Frames = Callable[[], Mapping[int, FrameType]]
_list_frames: Frames = sys._current_frames  # noqa: SLF001 - there is no other way


def current_frames() -> Mapping[int, FrameType]:
    """Return the innermost frame of each thread, by its ident. Drop it soon: frames keep locals alive."""
    return _without_collection() if sys.version_info[:2] == (3, 11) else _list_frames()


def _without_collection() -> Mapping[int, FrameType]:
    call: Any = getattr(operator, "call", None)  # from 3.11 on
    unless_off, unless_on = partial(operator.is_not, False), partial(operator.is_not, True)
    while_on = (gc.isenabled, gc.disable, _list_frames, gc.enable)
    for _ in range(_TRIES):
        try:
            done: list[Any] = list(takewhile(unless_off, map(call, while_on)))
        except Exception:
            gc.enable()  # only listing the frames can fail, and the collector was on
            raise
        if done:
            return cast("Mapping[int, FrameType]", done[2])
        done = list(takewhile(unless_on, map(call, (gc.isenabled, _list_frames))))
        if done:
            return cast("Mapping[int, FrameType]", done[1])
    return {}
