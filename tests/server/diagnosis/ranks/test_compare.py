"""Who keeps the other ranks waiting, and when nothing is said."""

import json
from dataclasses import replace

import pytest
from midwatch.model.ranks import Collective, RankFacts, RankStep
from midwatch_server.diagnosis.ranks import Member, compare_ranks, ranks_document

MS = 1_000_000
TRANSFER_MS = 0.5


def job(late, *, steps=range(3), clocks=None, step_ms=20.0, name="allreduce", backend="nccl", lane="device"):
    """Ranks whose arrival at the one collective of each step is ``late`` ms after the first; it ends alike for all.

    ``late`` holds one list a rank, one value a step.
    """
    members = []
    for rank, mine in enumerate(late):
        told = []
        for number in steps:
            at = mine[number % len(mine)]
            last = max(other[number % len(other)] for other in late)
            begin = number * step_ms + 5.0
            ahead = (clocks or {}).get(rank, 0.0)
            part = Collective(name, "", round((begin + at + ahead) * MS), round((last - at + TRANSFER_MS) * MS))
            told.append(
                RankStep(
                    number, round((number * step_ms + ahead) * MS), round(step_ms * MS), round((5 + at) * MS), (part,)
                )
            )
        members.append(Member(f"rank{rank}.json", RankFacts(rank, len(late), backend, (), lane, tuple(told))))
    return members


def codes(world):
    return [remark.code for remark in world.remarks]


def test_the_rank_whose_collectives_are_the_shortest_arrives_last():
    world = compare_ranks(job([[0.0], [0.1], [4.0], [0.0]]))
    assert world.answer == (
        "Rank 2 arrives last in 3 of 3 collectives in which somebody waited: the others wait 4.0 ms of a step for it "
        "(20 %); its device works 4.0 ms longer in a step than those of the others."
    )
    named = world.straggler
    assert (named.rank, named.last, named.waited_for, named.exact) == (2, 3, 3, True)
    assert named.excess_ms == pytest.approx(4.0)
    assert [row.late_ms for row in world.rows] == pytest.approx([0.0, 0.0, 4.0, 0.0])
    assert [row.waited_ms for row in world.rows] == pytest.approx([4.0, 3.9, 0.0, 4.0])
    assert [row.collective_ms for row in world.rows] == pytest.approx([4.5, 4.4, 0.5, 4.5])
    assert world.remarks == ()


def test_the_order_of_the_files_does_not_matter():
    members = job([[0.0], [0.1], [4.0], [0.0]])
    assert compare_ranks(members[::-1]) == compare_ranks(members)


def test_a_host_that_hands_over_late_is_told_from_a_slow_device():
    members = job([[0.0], [4.0], [0.0]])
    even = [
        Member(one.label, replace(one.facts, steps=tuple(replace(step, compute_ns=5 * MS) for step in one.facts.steps)))
        for one in members
    ]
    assert compare_ranks(even).straggler.why.endswith("its host hands the work over late")
    on_host = [Member(one.label, replace(one.facts, lane="host")) for one in members]
    assert compare_ranks(on_host).straggler.why == ""
    assert compare_ranks(on_host).rows[0].compute_ms is None


def test_who_takes_turns_is_no_straggler():
    world = compare_ranks(job([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]]))
    assert world.straggler is None
    assert sum(row.last for row in world.rows) == 3
    world = compare_ranks(job([[4.0, 0.0], [0.0, 4.0]], steps=range(4)))
    assert world.answer == "No one straggler: now this rank arrives last, now that one."


def test_who_arrives_together_waits_for_nobody():
    world = compare_ranks(job([[0.0], [0.01], [0.015]]))
    assert world.straggler is None
    assert world.answer == "No straggler: nobody makes the others wait 2 % of a step."
    assert [row.last for row in world.rows] == [0, 0, 0]


def test_clocks_apart_are_said_and_change_nothing():
    world = compare_ranks(job([[0.0], [4.0], [0.0]], clocks={2: 12.3}))
    assert world.straggler.rank == 1
    assert codes(world) == ["clocks_differ"]
    assert "rank 2 12.3 ms ahead" in world.remarks[0].text
    assert world.rows[2].clock_ms == pytest.approx(12.3)


def test_only_steps_that_all_have_are_compared():
    early, late = job([[0.0], [4.0]], steps=range(5)), job([[0.0], [4.0]], steps=range(2, 7))
    world = compare_ranks([early[0], late[1]])
    assert world.steps == (2, 3, 4)
    assert codes(world) == ["steps_differ"]
    assert "compared are steps 2 to 4" in world.remarks[0].text


def test_without_a_common_step_only_sums_are_compared():
    early, late = job([[0.0], [4.0], [0.0]]), job([[0.0], [4.0], [0.0]], steps=range(10, 13))
    world = compare_ranks([early[0], late[1], early[2]])
    assert (world.matched, world.straggler.rank, world.straggler.exact) == (0, 1, False)
    assert world.answer.startswith("Rank 1 arrives last, as far as sums tell: the others wait 4.0 ms of a step for it")
    assert "rank 1 has steps 10 to 12" in world.remarks[0].text


def test_collectives_that_are_not_the_same_are_not_matched():
    members = job([[0.0], [4.0]])
    other = job([[0.0], [4.0]], name="allgather")
    world = compare_ranks([members[0], other[1]])
    assert world.matched == 0
    assert codes(world) == ["collectives_differ"]


def test_ends_that_scatter_are_not_the_same_collectives():
    members = job([[0.0], [4.0]], steps=range(6))
    moved = tuple(
        replace(
            step,
            collectives=tuple(replace(c, start_ns=c.start_ns + step.number % 3 * 9 * MS) for c in step.collectives),
        )
        for step in members[1].facts.steps
    )
    world = compare_ranks([members[0], Member("b", replace(members[1].facts, steps=moved))])
    assert "ends_scatter" in codes(world)
    assert world.straggler is None or not world.straggler.exact


def test_several_groups_are_matched_each_by_itself():
    groups = (("0", (0, 1, 2, 3)), ("a", (0, 1)), ("b", (2, 3)))
    pairs = [("a", 0.0), ("a", 3.0), ("b", 3.0), ("b", 0.0)]
    members = []
    for rank, (group, late) in enumerate(pairs):
        part = Collective("allreduce", group, round((5 + late) * MS), round((3 - late + TRANSFER_MS) * MS))
        step = RankStep(1, 0, 20 * MS, 5 * MS, (part,))
        members.append(Member(f"{rank}", RankFacts(rank, 4, "nccl", groups, "device", (step,))))
    world = compare_ranks(members)
    assert world.matched == 2
    assert [row.last for row in world.rows] == [0, 1, 1, 0]
    nameless = [
        Member(
            one.label,
            replace(
                one.facts,
                steps=tuple(
                    replace(step, collectives=tuple(replace(c, group="") for c in step.collectives))
                    for step in one.facts.steps
                ),
            ),
        )
        for one in members
    ]
    assert "groups_unknown" in codes(compare_ranks(nameless))
    assert compare_ranks(nameless).matched == 0


def test_waiting_on_two_streams_at_once_counts_once():
    members = []
    for rank, late in enumerate((0.0, 4.0)):
        part = Collective("allreduce", "", round((5 + late) * MS), round((4 - late + TRANSFER_MS) * MS))
        step = RankStep(1, 0, 20 * MS, 5 * MS, (part, replace(part, name="allgather")))
        members.append(Member(f"{rank}", RankFacts(rank, 2, "nccl", (), "device", (step,))))
    world = compare_ranks(members)
    assert world.straggler.last == 2
    assert world.straggler.excess_ms == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (job([[0.0], [4.0]]) + job([[0.0], [4.0]])[:1], "rank 0 is there 2 times"),
        (job([[0.0], [4.0]])[:1] + job([[0.0], [4.0], [0.0]])[1:2], "they are of jobs of 2 and 3 ranks"),
    ],
)
def test_ranks_of_different_runs_are_not_compared(members, said):
    world = compare_ranks(members)
    assert (world.straggler, world.rows) == (None, ())
    assert said in world.answer


def test_traces_recorded_at_another_time_are_of_another_run():
    year_2026 = 1_790_000_000 * 1000 * MS
    members = [
        Member(
            one.label,
            replace(
                one.facts,
                steps=tuple(
                    replace(step, start_ns=step.start_ns + year_2026 + one.facts.rank * 3600 * 1000 * MS)
                    for step in one.facts.steps
                ),
            ),
        )
        for one in job([[0.0], [4.0]])
    ]
    assert "recorded 3,600 s apart" in compare_ranks(members).answer


def test_missing_ranks_are_said():
    world = compare_ranks(job([[0.0], [4.0], [0.0], [0.0]])[:2])
    assert world.missing == (2, 3)
    assert world.remarks[0].text.startswith("2 of 4 ranks are there")


def test_without_collectives_nothing_is_said():
    members = [
        Member(one.label, replace(one.facts, lane="", steps=tuple(replace(s, collectives=()) for s in one.facts.steps)))
        for one in job([[0.0], [4.0]])
    ]
    assert compare_ranks(members).answer.startswith("Nothing is said of stragglers: the traces hold no collectives")


def test_one_rank_is_no_job():
    assert compare_ranks(job([[0.0], [4.0]])[:1]) is None
    assert compare_ranks([]) is None


def test_the_document():
    document = ranks_document(compare_ranks(job([[0.0], [4.0], [0.0]])))
    assert json.loads(json.dumps(document)) == document
    assert set(document) == {
        "world_size", "backend", "rows", "missing", "steps", "matched", "straggler", "answer", "remarks",
    }  # fmt: skip
    assert document["straggler"]["rank"] == 1
    assert document["rows"][1]["late_ms"] == 4.0
