"""What a call of the device's runtime does, by its name: CUDA runtime and driver, HIP and their relatives."""

from __future__ import annotations

import re

import numpy as np

from midwatch.trace.intervals import Ints, distinct

OTHER, LAUNCH, GRAPH, MEMCPY, MEMSET, DEVICE_SYNC, STREAM_SYNC, EVENT_SYNC, FREE, ALLOC, CAPTURE, CAPTURE_END = range(
    12
)

_RULES = (
    (DEVICE_SYNC, r"DeviceSynchronize|CtxSynchronize|ThreadSynchronize"),
    (STREAM_SYNC, r"StreamSynchronize"),
    (EVENT_SYNC, r"EventSynchronize"),
    (CAPTURE, r"StreamBeginCapture"),
    (CAPTURE_END, r"StreamEndCapture"),
    (GRAPH, r"GraphLaunch"),
    (LAUNCH, r"LaunchKernel|LaunchCooperative|ModuleLaunch|LaunchHostFunc|^(?:cuda|hip)Launch(?:ByPtr)?$"),
    (MEMCPY, r"Memcpy"),
    (MEMSET, r"Memset"),
    (FREE, r"^(?:cuda|cu|hip)(?:Mem)?Free|HostFree|FreeHost"),
    (ALLOC, r"^(?:cuda|cu|hip)(?:Mem|Host|Array|MemHost)?(?:Malloc|Alloc)|HostAlloc|MallocHost|MemCreate"),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _RULES)

WAITS = {DEVICE_SYNC: "device_sync", STREAM_SYNC: "stream_sync", EVENT_SYNC: "event_sync"}


def api_kind(name: str) -> int:
    """Class of one call."""
    for kind, pattern in _COMPILED:
        if pattern.search(name):
            return kind
    return OTHER


def api_kinds(names: list[str], used: Ints) -> Ints:
    """Class of each row, given the rows' name numbers; a name is looked at once."""
    table = np.zeros(len(names) + 1, np.int64)
    for number in distinct(used).tolist():
        table[number] = api_kind(names[number])
    return table[used]
