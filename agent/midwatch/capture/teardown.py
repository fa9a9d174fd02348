"""Finishing a tear-down of CUPTI, where the service itself does not.

At the end of a session Kineto starts a thread that waits until some thread of the process leaves a call of the CUDA
runtime: there CUPTI is finalised (`CuptiActivityApi::teardownContext` and `CuptiCallbackApi::__callback_switchboard`).
A busy service does that within microseconds. A service that rests, or that is about to exit, does not; then the thread
waits on, and when the process exits, the destructor of the condition variable that it waits on never returns. So once
the service has had its time, a call that changes nothing is made here: it asks the runtime for the driver's version.
"""

from __future__ import annotations

import ctypes
import time

from midwatch.capture.environment import tears_down
from midwatch.capture.libraries import opened
from midwatch.capture.torchapi import loaded_torch, uses_device
from midwatch.capture.version import version_of
from midwatch.guard import guard

SETTLE_S = 0.15
"""After a session that tears CUPTI down. What is opened at once comes back empty; 0.1 s later it does not."""
_OWN_TIME_S = 0.05
"""In which a busy service finalises CUPTI by itself."""
_EVERY_S = 0.025


def settle() -> None:
    """Wait until a tear-down that has just begun is over."""
    time.sleep(_OWN_TIME_S)
    for _ in range(round((SETTLE_S - _OWN_TIME_S) / _EVERY_S)):
        guard.call("teardown", _call_runtime, default=None)
        time.sleep(_EVERY_S)


def settle_at_exit() -> None:
    """The same, for a session of the user's that has ended: nothing may be pending when the process goes."""
    torch = loaded_torch()
    if torch is not None and tears_down() and uses_device(torch):
        settle()


def _call_runtime() -> None:
    torch = loaded_torch()
    if torch is None:
        return
    try:
        # By its soname this is the library that torch has loaded. ctypes lets go of the GIL: finalising may take long.
        runtime = opened(f"libcudart.so.{version_of(torch).cuda[0]}")
    except OSError:
        torch._C._cuda_getDevice()  # a torch that carries the runtime inside itself
        return
    runtime.cudaDriverGetVersion(ctypes.byref(ctypes.c_int()))
