"""Runs a plan again with a cause taken away: how long would the request have taken?

The host does its own work as long as it did, minus what is taken away. Work of the device starts when it has been
launched and when what stands in front of it on its stream has ended, each with the lag that was recorded. A wait ends
when the work that it waits for has ended. So without a wait the host runs ahead, and the hand-over of the result then
waits for the device: what is gained is the time for which the device had nothing to do, no more. Unchanged, the replay
gives the recorded times to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from midwatch.trace.intervals import Ints
from midwatch.trace.plan import Item, Plan

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
    ends: dict[int, float] = {}
    own = np.maximum(1.0 - recording * plan.shares, _LEAST)
    own[list(squeeze)] = 0.0
    hosts: list[float] = (own * _hosts(plan, cuts)).tolist()
    calls: list[float] = (own[:-1] * (plan.ends[1:] - plan.starts[:-1])).tolist()
    for position in squeeze:
        if position and position - 1 not in squeeze:
            calls[position - 1] = max(calls[position - 1], graph)
    begun = plan.starts.tolist()
    others = plan.others
    for item, wait, work, start, host, call in zip(
        plan.items, plan.waits, plan.work, begun, hosts, calls, strict=False
    ):
        clock += host
        # By far the most often run lines of a summary: unpacked, since attributes and calls cost more than the sums.
        shared = others if others and abs(clock - start) >= 1 else None
        for row, length, after_launch, front, front_end, after_front, tie in work:
            at = clock + after_launch
            if front >= 0:
                free = ends.get(front, front_end)
                if tie is not None and shared and tie.lane in shared:
                    # The work of others stays where it was: launched at another time it stands in line behind it.
                    free = max(ends.get(tie.own, front_end), shared[tie.lane].busy_until(clock))
                if at < free + after_front:  # noqa: PLR1730 - max() would cost as much as all the rest
                    at = free + after_front
            if tie is None:
                ends[row] = at + length
                continue
            if tie.joined in ends:
                at = max(at, ends[tie.joined] + tie.after_joined)
            ends[row] = at + length + stalls * tie.stall
        if wait < 0:
            clock += call
        elif wait not in drop:
            clock = _waited(item, clock, ends)
    clock += hosts[-1]
    drained = max(ends.values(), default=clock) - plan.overhang
    return max(clock, drained) - plan.request.start


def _hosts(plan: Plan, cuts: Sequence[Cut]) -> Ints:
    """The host's own work before each item and after the last one, without what is taken away."""
    hosts = plan.starts - plan.ends
    if cuts:
        hosts -= np.maximum(_upto(cuts, plan.starts) - _upto(cuts, plan.ends), 0)
    return hosts


def _upto(cuts: Sequence[Cut], times: Ints) -> Ints:
    """How much is taken away before each time."""
    found = np.zeros(len(times), np.int64)
    for edges, sign in zip(np.sort(np.array(cuts, np.int64), axis=0).T, (1, -1), strict=True):
        passed = np.searchsorted(edges, times)
        found += sign * (passed * times - np.append(0, np.cumsum(edges))[passed])
    return found


def _waited(item: Item, clock: float, ends: dict[int, float]) -> float:
    if item.work < 0:
        return clock + (item.end - item.start)
    late = item.end - max(item.start, item.work_end)
    return max(clock, ends.get(item.work, item.work_end)) + late
