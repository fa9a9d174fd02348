"""The same collective on all ranks: the k-th of its process group in the same step, with the same name everywhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from midwatch.model.ranks import Collective, RankStep

from midwatch_server.diagnosis.ranks.values import Member

TOGETHER_NS = 20_000
TOGETHER_SHARE = 0.1
"""Parts that differ by no more than this, or this share of the shortest, began together: nobody waited."""


@dataclass(frozen=True, slots=True)
class Match:
    """One collective as each rank saw it."""

    step: int
    parts: dict[int, Collective]
    """By rank."""

    @property
    def last(self) -> int | None:
        """The rank that arrived last: the one with the shortest part. None where they arrived together."""
        shortest = min(self.parts.values(), key=lambda part: part.duration_ns).duration_ns
        longest = max(part.duration_ns for part in self.parts.values())
        if longest - shortest <= max(TOGETHER_NS, TOGETHER_SHARE * shortest):
            return None
        return min(self.parts, key=lambda rank: self.parts[rank].duration_ns)


@dataclass(slots=True)
class Matched:
    """All that could be matched, and what could not."""

    steps: tuple[int, ...] = ()
    matches: list[Match] = field(default_factory=list)
    unlike: int = 0
    """Sequences of collectives, one a step and group, that are not the same on all their ranks."""
    groups_unknown: bool = False


def match(members: Sequence[Member]) -> Matched:
    """Match the collectives of the steps that all ``members`` have."""
    steps = {member.facts.rank: {step.number: step for step in member.facts.steps} for member in members}
    common = sorted(set.intersection(*(set(mine) for mine in steps.values())))
    found = Matched(tuple(common))
    several = any(sum(len(ranks) > 1 for _, ranks in member.facts.groups) > 1 for member in members)
    for number in common:
        sequences: dict[str, dict[int, list[Collective]]] = defaultdict(dict)
        for rank, mine in steps.items():
            for group, collectives in _by_group(mine[number], several=several).items():
                sequences[group][rank] = collectives
        for group, by_rank in sequences.items():
            if several and not group:
                found.groups_unknown = True
            elif len(by_rank) > 1:
                _add(found, number, by_rank)
    return found


def _by_group(step: RankStep, *, several: bool) -> dict[str, list[Collective]]:
    """Where there is one group only, all collectives are of it, whether or not they say so."""
    groups: dict[str, list[Collective]] = defaultdict(list)
    for collective in step.collectives:
        groups[collective.group if several else ""].append(collective)
    return groups


def _add(found: Matched, step: int, by_rank: dict[int, list[Collective]]) -> None:
    names = [[collective.name for collective in mine] for mine in by_rank.values()]
    if any(other != names[0] for other in names[1:]):
        found.unlike += 1
        return
    for together in zip(*by_rank.values(), strict=True):
        found.matches.append(Match(step, dict(zip(by_rank, together, strict=True))))
