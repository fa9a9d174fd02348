"""Has the interpreter's threads take turns more often while the agent samples or writes.

A thread that wants the GIL waits for up to `sys.getswitchinterval` (5 ms) while another runs Python. Beside a window
that hurts twice: the sampler comes to look only when the busy thread lets go by itself, and then sees the line at which
it let go, not the one that ran; and a request that comes back from the device waits for as long while the agent writes
down what it saw. With half a millisecond, samples fall where time is spent, and the agent gives way ten times sooner.

The interval belongs to the process, so it is lowered only for the length of a window, and put back only where nobody
else has changed it meanwhile.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

EAGER_S = 0.0005


@contextlib.contextmanager
def eager_switching(interval_s: float = EAGER_S) -> Iterator[None]:
    """Lower the switch interval to ``interval_s`` seconds while the block lasts; a lower one stays as it is."""
    before_s = sys.getswitchinterval()
    if before_s <= interval_s:
        yield
        return
    sys.setswitchinterval(interval_s)
    lowered_s = sys.getswitchinterval()
    try:
        yield
    finally:
        if sys.getswitchinterval() == lowered_s:
            sys.setswitchinterval(before_s)
