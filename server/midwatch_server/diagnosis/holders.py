"""Which thread held the interpreter while a look came late, where CPU times prove it.

While one thread keeps the interpreter, in a call written in C, nobody else runs Python, the agent's own thread neither.
So of a look that waited for it (`StackSample.ran_ns`) the holder is a thread that stood in such a call at the end, has
run for as long as the look was late, and is the only one: no other thread ran for even half of that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from midwatch.model.samples import StackSample
from midwatch.model.spike import Spike

from midwatch_server.diagnosis.activity import Activity, activity, returns_at_once

MIN_LATE_NS = 10_000_000
"""The agent's own limit for a late turn."""
NEARLY_ALL, HALF = 0.9, 0.5
ALL_SEEN = 30
"""Threads of one look: beyond, the agent leaves some out."""


def late_ns(sample: StackSample) -> int:
    """Return for how long the interpreter may have been held before a look; 0 where it was not late."""
    late = min(sample.late_ns, sample.weight_ns)
    return late if late >= MIN_LATE_NS else 0


def may_hold(sample: StackSample, *, has_device: bool) -> bool:
    """Return whether this thread may have kept the interpreter: plain Python hands it over, and so does what blocks."""
    doing = activity(sample.frames, has_device=has_device)
    in_c = bool(sample.frames and sample.frames[0].callee)
    return doing in (Activity.PYTHON, Activity.GC) and in_c and not returns_at_once(sample.frames)


def holders(spike: Spike) -> Iterator[tuple[StackSample, int]]:
    """Yield each look at a thread that held the interpreter, with the nanoseconds before it that it did."""
    looks: dict[int, list[StackSample]] = defaultdict(list)
    for sample in spike.samples:
        if late_ns(sample):
            looks[sample.unix_ns].append(sample)
    for seen in looks.values():
        able = [sample for sample in seen if may_hold(sample, has_device=spike.has_device)]
        late = max(map(late_ns, seen))
        if len(able) == 1 and len(seen) <= ALL_SEEN and able[0].ran_ns >= NEARLY_ALL * late:
            holder = able[0]
            others = (_ran_ns(spike, sample) for sample in seen if sample is not holder)
            if all(0 <= ran < HALF * late for ran in others):
                whole = holder.ran_ns >= NEARLY_ALL * holder.weight_ns
                yield holder, holder.weight_ns if whole else late


def _ran_ns(spike: Spike, sample: StackSample) -> int:
    """Return for how long a thread may have run; -1 where that is not known. A request's own time is known exactly."""
    request = spike.request
    if sample.role == "request" and not request.is_async and request.cpu_ns > 0:
        return request.cpu_ns
    return sample.ran_ns
