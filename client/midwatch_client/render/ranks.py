"""The ranks of one job, for a person at a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from midwatch_server.diagnosis import Report
from midwatch_server.diagnosis.ranks import World
from midwatch_server.diagnosis.ranks.values import RankRow
from midwatch_server.diagnosis.words import ms, plural
from rich.console import Console

from midwatch_client.console import line
from midwatch_client.render import wording
from midwatch_client.render.grid import escaped, grid, lines, markdown_grid

HEAD = ("rank", "step", "computing", "collectives", "waiting", "arrives last", "others wait", "first finding")
MAX_WIDTH = 120


def shown(world: World | None, reports: Sequence[Report]) -> Sequence[Report]:
    """Return the reports to show in full: of ranks that were compared the straggler's, else the first one's."""
    if world is None or (not world.matched and world.straggler is None):
        return reports
    rank = world.straggler.rank if world.straggler is not None else world.rows[0].rank
    label = next(row.label for row in world.rows if row.rank == rank)
    ranked = {row.label for row in world.rows}
    return [one for one in reports if _name(one) == label or _name(one) not in ranked]


def rank_rows(world: World, reports: Sequence[Report]) -> list[tuple[str, ...]]:
    """Return the cells of the table, a row a rank."""
    first = {_name(report): first_finding(report) for report in reports}
    return [(*_cells(row), first.get(row.label, "")) for row in world.rows]


def print_world(world: World, reports: Sequence[Report], console: Console) -> None:
    """Print who keeps the others waiting, then the table."""
    width = min(console.width, MAX_WIDTH)
    lines(console, [world.answer], width, style="bold")
    if not world.rows:
        console.print()
        return
    lines(console, [about(world)], width, style="dim")
    for remark in world.remarks:
        lines(console, [f"- {remark.text}"], width, hang=2)
    console.print()
    console.print(grid(HEAD, rank_rows(world, reports), width, left=(0, len(HEAD) - 1)))
    left_out = len(reports) - len(shown(world, reports))
    if left_out:
        console.print(line(("One rank's report follows; analyze the file of another alone for its own.", "dim")))


def world_markdown(world: World, reports: Sequence[Report]) -> str:
    """Return the same as Markdown."""
    text = [f"**{escaped(world.answer)}**", ""]
    if not world.rows:
        return "\n".join(text)
    text += [escaped(about(world)), ""]
    text += [f"- {escaped(remark.text)}" for remark in world.remarks]
    text += ["", *markdown_grid(HEAD, rank_rows(world, reports), left=(0, len(HEAD) - 1))]
    return "\n".join(text) + "\n"


def about(world: World) -> str:
    """Return what was compared, in one line."""
    size = f" of {world.world_size}" if world.world_size else ""
    steps = f", {plural(len(world.steps), 'step')} from {world.steps[0]} on" if world.steps else ""
    backend = f" over {world.backend}" if world.backend else ""
    matched = f", {plural(world.matched, 'collective')} matched one by one" if world.matched else ""
    return f"{len(world.rows)}{size} ranks{backend}{steps}{matched}; medians of a step, traced"


def _cells(row: RankRow) -> tuple[str, ...]:
    return (
        str(row.rank),
        ms(row.step_ms),
        _known(row.compute_ms),
        ms(row.collective_ms),
        _known(row.waited_ms),
        str(row.last) if row.late_ms is not None else "-",
        _known(row.late_ms),
    )


def _known(value: float | None) -> str:
    return "-" if value is None else ms(value)


def first_finding(report: Report) -> str:
    """Return the first finding in one line, the verdict where there is none."""
    findings = report.diagnosis.findings
    return (
        f"{findings[0].kind.value}: {findings[0].title}"
        if findings
        else wording.VERDICTS.get(report.diagnosis.verdict, report.diagnosis.verdict.value)
    )


def _name(report: Report) -> str:
    return report.file.rpartition("/")[2]
