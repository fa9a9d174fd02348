"""Runs a plan again with a cause taken away: how long would the request have taken?

The host does its own work as long as it did, minus what is taken away. Work of the device starts when it has been
launched and when what stands in front of it on its stream has ended, each with the lag that was recorded. A wait ends
when the work that it waits for has ended. So without a wait the host runs ahead, and the hand-over of the result then
waits for the device: what is gained is the time for which the device had nothing to do, no more. Unchanged, the replay
gives the recorded times to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from midwatch.trace.plan import Item, Op, Plan

Cut = tuple[int, int]
"""A stretch of host work, start and end, that is taken away."""

_LEAST = 0.4
"""Share of host work that is left when recording is taken out: no profiler has been seen to slow a host 2.5 times."""


def replay(
    plan: Plan,
    *,
    recording: float = 0.0,
    stalls: float = 1.0,
    drop: Collection[int] = (),
    cuts: Sequence[Cut] = (),
    squeeze: Collection[int] = (),
    graph: float = 0.0,
) -> float:
    """Nanoseconds that the request takes then.

    Args:
        plan: The request.
        recording: How many times the usual cost of recording events is taken out of the host's work.
        stalls: What the delays of the device that nothing explains are multiplied with.
        drop: Indexes of waits that do not happen.
        cuts: Host work that does not happen.
        squeeze: Positions in ``plan.items`` that are launched together with the item before them.
        graph: Nanoseconds that the one call takes at least which launches what is squeezed.
    """
    clock = float(plan.request.start)
    before = plan.request.start
    ends: dict[int, float] = {}
    for position, item in enumerate(plan.items):
        own = 0.0 if position in squeeze else max(_LEAST, 1.0 - recording * item.recording)
        clock += own * _host(before, item.start, cuts)
        _run(plan, item, clock, ends, stalls=stalls)
        if item.wait < 0:
            least = graph if position + 1 in squeeze and position not in squeeze else 0.0
            clock += max(own * (item.end - item.start), least)
        elif item.wait not in drop:
            clock = _waited(item, clock, ends)
        before = item.end
    own = max(_LEAST, 1.0 - recording * plan.recording)
    clock += own * _host(before, plan.request.end, cuts)
    drained = max(ends.values(), default=clock) - plan.overhang
    return max(clock, drained) - plan.request.start


def _host(start: int, end: int, cuts: Sequence[Cut]) -> int:
    length = end - start
    for a, b in cuts:
        length -= max(0, min(b, end) - max(a, start))
    return length


def _run(plan: Plan, item: Item, launched: float, ends: dict[int, float], *, stalls: float) -> None:
    for op in item.ops:
        start = launched + op.after_launch
        if op.before >= 0:
            start = max(start, _free(plan, op, launched, ends, moved=abs(launched - item.start) >= 1) + op.after_before)
        if op.joined >= 0 and op.joined in ends:
            start = max(start, ends[op.joined] + op.after_joined)
        ends[op.row] = start + op.length + stalls * op.stall


def _free(plan: Plan, op: Op, launched: float, ends: dict[int, float], *, moved: bool) -> float:
    """When the stream has done what stands in front of an operation.

    The work of others stays where it was, so launched at another time an operation stands in line behind other work.
    """
    others = plan.others.get(op.lane)
    if others is None or not moved:
        return ends.get(op.before, op.before_end)
    return max(ends.get(op.own, op.before_end), others.busy_until(launched))


def _waited(item: Item, clock: float, ends: dict[int, float]) -> float:
    if item.work < 0:
        return clock + (item.end - item.start)
    late = item.end - max(item.start, item.work_end)
    return max(clock, ends.get(item.work, item.work_end)) + late
