"""Which thread held the interpreter while a look came late, where that is proven.

While one thread keeps the interpreter, in a call written in C, nobody else runs Python, the agent's own thread neither.
So the holder is a thread that stood at such a call at the end of the delay, and that alone ran meanwhile, which the
agent knows by CPU times (`StackSample.ran_ns`). A call that lets go of the interpreter while it computes would run as
well: so only calls are taken that are known to keep it.

Source of the list: CPython's builtins, ``json``, ``re``, ``pickle`` and ``struct``, whose C code has no
``Py_BEGIN_ALLOW_THREADS`` on the way.
"""

from __future__ import annotations

from collections.abc import Iterator

from midwatch.model.samples import StackSample
from midwatch.model.spike import Spike

from midwatch_server.diagnosis.activity import Activity, activity, returns_at_once

MIN_LATE_NS = 10_000_000
"""The agent's own limit for a late turn."""
KEEPS = frozenset(
    {
        "_iterencode", "dict", "dumps", "findall", "finditer", "format", "frozenset", "fullmatch", "iterencode", "join",
        "list", "loads", "match", "pack", "raw_decode", "repr", "scan_once", "search", "set", "sorted", "splitlines",
        "sub", "subn", "tuple", "unpack",
    }
)  # fmt: skip
"""Calls that keep the interpreter from begin to end. Not ``sort``, ``sum``, ``split``, ``encode`` and the like: arrays
and tokenizers have them too, and let go of it.
"""


def late_ns(sample: StackSample) -> int:
    """Return for how long the interpreter may have been held before a look; 0 where it was not late."""
    late = min(sample.late_ns, sample.weight_ns)
    return late if late >= MIN_LATE_NS else 0


def may_hold(sample: StackSample, *, has_device: bool) -> bool:
    """Return whether this thread may have kept the interpreter: plain Python hands it over, and so does what blocks."""
    doing = activity(sample.frames, has_device=has_device)
    in_c = bool(sample.frames and sample.frames[0].callee)
    return doing in (Activity.PYTHON, Activity.GC) and in_c and not returns_at_once(sample.frames)


def holders(spike: Spike) -> Iterator[StackSample]:
    """Yield each late look at a thread that held the interpreter for as long as the look was late."""
    for sample in spike.samples:
        proven = sample.ran_ns > 0 and late_ns(sample) and may_hold(sample, has_device=spike.has_device)
        if proven and sample.frames[0].callee in KEEPS:
            yield sample
