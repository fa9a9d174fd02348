"""Ranks for a person: who keeps the others waiting, the table, and whose report follows."""

from dataclasses import replace

import pytest
from midwatch.model.ranks import Collective, RankFacts, RankStep
from midwatch_client.render.ranks import print_world, shown, world_markdown
from midwatch_server.diagnosis.ranks import Member, compare_ranks
from rich.console import Console

MS = 1_000_000


@pytest.fixture
def world():
    """Three ranks; the second arrives 4 ms after the others."""
    members = []
    for rank, late in enumerate((0, 4, 0)):
        part = Collective("allreduce", "", (5 + late) * MS, (4 - late) * MS + MS // 2)
        step = RankStep(7, 0, 20 * MS, (5 + late) * MS, (part,))
        members.append(Member(f"rank{rank}.json", RankFacts(rank, 4, "nccl", (), "device", (step,))))
    return compare_ranks(members)


@pytest.fixture
def reports(capture_report):
    return [replace(capture_report, file=f"out/rank{rank}.json") for rank in range(3)]


def test_the_whole_output(world, reports):
    console = Console(width=100, record=True, file=None, color_system=None, quiet=False)
    with console.capture() as captured:
        print_world(world, reports, console)
    text = captured.get()
    assert text.startswith(
        "Rank 1 arrives last in 1 of 1 collective in which somebody waited: the others wait 4.0 ms of a step\n"
        "for it (20 %); its device works 4.0 ms longer in a step than those of the others.\n"
        "3 of 4 ranks over nccl, 1 step from 7 on, 1 collective matched one by one; medians of a step, traced\n"
        "- 3 of 4 ranks are there; the last to arrive may be one that is not\n"
    )
    row = next(line for line in text.splitlines() if line.startswith(" 1 "))
    assert row.split()[:12] == ["1", "20.0", "ms", "9.0", "ms", "0.50", "ms", "0", "ms", "1", "4.0", "ms"]
    assert "hot_sync" in text
    assert text.rstrip().endswith("One rank's report follows; analyze the file of another alone for its own.")


def test_the_straggler_s_report_is_the_one_to_read(world, reports):
    assert [one.file for one in shown(world, reports)] == ["out/rank1.json"]
    nobody = replace(world, straggler=None)
    assert [one.file for one in shown(nobody, reports)] == ["out/rank0.json"]
    other = replace(reports[0], file="out/other.json")
    assert [one.file for one in shown(world, [*reports, other])] == ["out/rank1.json", "out/other.json"]
    assert shown(None, reports) == reports
    assert shown(replace(nobody, matched=0), reports) == reports


def test_markdown(world, reports):
    lines = world_markdown(world, reports).splitlines()
    assert lines[0].startswith("**Rank 1 arrives last")
    assert any(line.startswith("| 1 | 20.0 ms | 9.0 ms | 0.50 ms | 0 ms | 1 | 4.0 ms | hot_sync: ") for line in lines)
