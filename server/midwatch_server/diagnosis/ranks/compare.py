"""Set the ranks of one job beside each other, and name the one that keeps the others waiting.

Definition: a rank is the straggler if `MOST` of all waiting in matched collectives was for it, and the others wait at
least `WORTH` of a step for it. Where collectives cannot be matched one by one, sums per step are compared, and the rank
whose collectives take `BY_SUM` of a step less than those of the others, and clearly less than the next one's, is named.

Source: an all-reduce makes the steps of all ranks equally long, so that the slow one cannot be seen by its wall time;
the last to arrive has the shortest kernel, since it waits for nobody.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from midwatch_server.diagnosis.diff.values import Remark
from midwatch_server.diagnosis.ranks.matching import Matched, match
from midwatch_server.diagnosis.ranks.values import Member, RankRow, Straggler, World
from midwatch_server.diagnosis.ranks.waiting import Waits, clocks_ms, late_ms, total_late, waited_ms, waits
from midwatch_server.diagnosis.words import ms, percent, plural

MOST = 0.6
WORTH = 0.02
BY_SUM = 0.05
CLOCKS_MS = (20.0, 1.0)
"""Clocks further apart are spoken of: as collectives on hosts tell them, which wait for a processor, and on devices."""
ONE_RUN_NS = 60_000_000_000
"""Traces of one run begin within a minute of each other, the difference of clocks included."""
REAL_TIME_NS = 946_684_800_000_000_000
"""The year 2000: what lies before it is no time of day, but counted from when the machine was started."""
SCATTER_MS = 2.0
"""Ends of collectives on a device that scatter more than this are not ends of the same collectives."""


def compare_ranks(members: Sequence[Member]) -> World | None:
    """Compare ranks; None where fewer than two traces name one.

    Args:
        members: The ranks, in any order.
    """
    if len(members) < 2:
        return None
    ranked = sorted(members, key=lambda member: member.facts.rank)
    clash = _clash(ranked)
    if clash:
        return World(0, "", (), (), (), 0, None, f"The ranks are not compared: {clash}.")
    matched = match(ranked)
    clocks, scatter = clocks_ms(matched.matches, ranked[0].facts.rank)
    doubtful = scatter > SCATTER_MS and all(member.facts.lane == "device" for member in ranked)
    found = None if doubtful or not matched.matches else waits(matched)
    last = Counter(one.last for one in matched.matches if one.last is not None and found is not None)
    rows = tuple(_row(member, found, clocks, last, matched.steps) for member in ranked)
    named = _straggler(rows, found, last) if found is not None else _by_sum(rows)
    remarks = tuple(_remarks(ranked, matched, clocks, scatter if doubtful else 0.0))
    steps = tuple(number for number in matched.steps if number >= 0)
    said = _answer(rows, named, found)
    return _world(ranked, World(0, "", rows, (), steps, len(matched.matches), named, said, remarks))


def _clash(members: Sequence[Member]) -> str:
    sizes = {member.facts.world_size for member in members} - {0}
    if len(sizes) > 1:
        return f"they are of jobs of {' and '.join(map(str, sorted(sizes)))} ranks"
    times = Counter(member.facts.rank for member in members)
    twice = next((rank for rank, count in times.items() if count > 1), None)
    if twice is not None:
        return f"rank {twice} is there {times[twice]} times, so the traces are of more than one run; give one run alone"
    starts = [member.facts.steps[0].start_ns for member in members if member.facts.steps]
    apart = max(starts, default=0) - min(starts, default=0)
    if apart > ONE_RUN_NS and min(starts) > REAL_TIME_NS:
        return (
            f"the traces were recorded {apart / 1e9:,.0f} s apart, so they are of more than one run; give one run alone"
        )
    return ""


def _row(
    member: Member, found: Waits | None, clocks: dict[int, float], last: Counter[int], steps: Sequence[int]
) -> RankRow:
    facts = member.facts
    mine = [step for step in facts.steps if not steps or step.number in steps]
    return RankRow(
        rank=facts.rank,
        label=member.label,
        steps=sum(step.number >= 0 for step in facts.steps),
        step_ms=_median([step.duration_ns for step in mine]),
        compute_ms=_median([step.compute_ns for step in mine]) if facts.lane == "device" else None,
        collective_ms=_median([sum(c.duration_ns for c in step.collectives) for step in mine]),
        waited_ms=waited_ms(found, steps, facts.rank) if found is not None and steps else None,
        last=last[facts.rank],
        late_ms=late_ms(found, steps, facts.rank) if found is not None and steps else None,
        clock_ms=clocks.get(facts.rank),
    )


def _median(nanos: Sequence[int]) -> float:
    return statistics.median(nanos) / 1e6 if nanos else 0.0


def _straggler(rows: Sequence[RankRow], found: Waits, last: Counter[int]) -> Straggler | None:
    late = {row.rank: total_late(found, row.rank) for row in rows}
    whole = sum(late.values())
    top = max(rows, key=lambda row: late[row.rank])
    if not whole or late[top.rank] < MOST * whole or (top.late_ms or 0.0) < WORTH * top.step_ms:
        return None
    excess = top.late_ms or 0.0
    share = min(excess / top.step_ms, 1.0) if top.step_ms else 0.0
    return Straggler(top.rank, excess, share, last[top.rank], sum(last.values()), True, _why(rows, top, excess))


def _by_sum(rows: Sequence[RankRow]) -> Straggler | None:
    known = sorted((row for row in rows if row.collective_ms > 0), key=lambda row: row.collective_ms)
    if len(known) < 2:
        return None
    top, following = known[0], known[1]
    excess = statistics.median(row.collective_ms for row in known[1:]) - top.collective_ms
    clear = following.collective_ms - top.collective_ms >= excess / 2
    if not clear or excess < BY_SUM * top.step_ms:
        return None
    share = min(excess / top.step_ms, 1.0) if top.step_ms else 0.0
    return Straggler(top.rank, excess, share, 0, 0, False, _why(rows, top, excess))


def _why(rows: Sequence[RankRow], top: RankRow, excess: float) -> str:
    others = [row.compute_ms for row in rows if row.rank != top.rank and row.compute_ms is not None]
    if top.compute_ms is None or not others:
        return ""
    longer = top.compute_ms - statistics.median(others)
    if longer >= excess / 2:
        return f"its device works {ms(longer)} longer in a step than those of the others"
    return "its device does not work longer than those of the others, so its host hands the work over late"


def _answer(rows: Sequence[RankRow], named: Straggler | None, found: Waits | None) -> str:
    if named is not None:
        why = f"; {named.why}" if named.why else ""
        waits_for = f"the others wait {ms(named.excess_ms)} of a step for it ({percent(named.share_of_step)})"
        if not named.exact:
            return f"Rank {named.rank} arrives last, as far as sums tell: {waits_for}{why}."
        times = f"in {named.last} of {plural(named.waited_for, 'collective')} in which somebody waited"
        return f"Rank {named.rank} arrives last {times}: {waits_for}{why}."
    if not any(row.collective_ms for row in rows):
        return "Nothing is said of stragglers: the traces hold no collectives that all ranks take part in alike."
    if found is None:
        return "Nothing is said of stragglers: the collectives of the ranks could not be set beside each other."
    most = max(rows, key=lambda row: row.late_ms or 0.0)
    if (most.late_ms or 0.0) < WORTH * most.step_ms:
        return "No straggler: nobody makes the others wait 2 % of a step."
    return "No one straggler: now this rank arrives last, now that one."


def _remarks(members: Sequence[Member], matched: Matched, clocks: dict[int, float], scatter: float) -> Iterator[Remark]:
    numbers = [{step.number for step in member.facts.steps} for member in members]
    if {-1} in numbers and any(mine != {-1} for mine in numbers):
        yield Remark("steps_differ", "Some ranks mark steps and others do not")
    elif not matched.steps:
        told = "; ".join(f"rank {m.facts.rank} has {_span(mine)}" for m, mine in zip(members, numbers, strict=True))
        yield Remark("steps_differ", f"The ranks recorded no step in common: {told}")
    elif any(mine != numbers[0] for mine in numbers):
        yield Remark("steps_differ", f"Not all ranks recorded the same steps; compared are {_span(set(matched.steps))}")
    if matched.unlike:
        text = f"In {plural(matched.unlike, 'step')} the ranks did not take part in the same collectives: left out"
        yield Remark("collectives_differ", text)
    if matched.groups_unknown:
        text = "There are several process groups, and not all collectives tell theirs: those are left out"
        yield Remark("groups_unknown", text)
    if scatter:
        text = (
            f"The ends of collectives scatter by {ms(scatter)} across ranks, so they may not be the same: not compared"
        )
        yield Remark("ends_scatter", text)
    apart = CLOCKS_MS[members[0].facts.lane == "device"]
    ahead = {rank: value for rank, value in clocks.items() if abs(value) > apart}
    if ahead and not scatter:
        told = ", ".join(
            f"rank {rank} {ms(abs(value))} {'ahead' if value > 0 else 'behind'}" for rank, value in ahead.items()
        )
        text = f"The clocks differ from that of rank {members[0].facts.rank}: {told}; durations are compared, not times"
        yield Remark("clocks_differ", text)


def _span(numbers: set[int]) -> str:
    known = sorted(numbers - {-1})
    if not known:
        return "no steps"
    if len(known) == 1:
        return f"step {known[0]}"
    whole = known == list(range(known[0], known[-1] + 1))
    return f"steps {known[0]} to {known[-1]}" if whole else "steps " + ", ".join(map(str, known))


def _world(members: Sequence[Member], world: World) -> World:
    """Fill in what the job says of itself, and which of its ranks are missing."""
    size = max(member.facts.world_size for member in members)
    there = {member.facts.rank for member in members}
    missing = tuple(rank for rank in range(size) if rank not in there)
    remarks = world.remarks
    if missing:
        text = f"{len(there)} of {size} ranks are there; the last to arrive may be one that is not"
        remarks = (Remark("ranks_missing", text), *remarks)
    backend = next((member.facts.backend for member in members if member.facts.backend), "")
    return replace(world, world_size=size, backend=backend, missing=missing, remarks=remarks)
