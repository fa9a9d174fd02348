"""Has the interpreter's threads take turns more often while the agent samples or writes.

A thread that wants the GIL waits for up to `sys.getswitchinterval` (5 ms) while another runs Python. Beside a window
that hurts twice: the sampler comes to look only when the busy thread lets go by itself, and then sees the line at which
it let go, not the one that ran; and a request that comes back from the device waits for as long while the agent writes
down what it saw. With half a millisecond, samples fall where time is spent, and the agent gives way ten times sooner.

Each thread that waits for the GIL wakes once an interval to ask for it, so that with a thousand of them the asking
alone would take the processors. So the interval grows with the number of threads; from some hundreds on it stays as is.

The interval belongs to the process, so it is lowered only for the length of a window, and put back only where nobody
else has changed it meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

EAGER_S = 0.0005
_FEW = 32
"""Threads that may all wait for the GIL at once without their asking being felt."""
_before_s = 0.0
"""What the interval was before it was lowered; 0.0 while it is not."""


@contextlib.contextmanager
def eager_switching(interval_s: float = EAGER_S) -> Iterator[None]:
    """Lower the switch interval to ``interval_s`` seconds while the block lasts; a lower one stays as it is.

    With more than 32 threads it is lowered less, in proportion.
    """
    global _before_s
    before_s = sys.getswitchinterval()
    interval_s *= max(1.0, len(getattr(threading, "_active", ())) / _FEW)
    if before_s <= interval_s:
        yield
        return
    _before_s = before_s
    sys.setswitchinterval(interval_s)
    lowered_s = sys.getswitchinterval()
    try:
        yield
    finally:
        _before_s = 0.0
        if sys.getswitchinterval() == lowered_s:
            sys.setswitchinterval(before_s)


def _after_fork() -> None:
    """In a child that was forked inside the block the thread that would put the interval back is gone."""
    global _before_s
    if _before_s:
        sys.setswitchinterval(_before_s)
        _before_s = 0.0


os.register_at_fork(after_in_child=_after_fork)
