"""What was planted against what was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from midwatch.model.incident import Incident, Occurrence
from midwatch.model.site import Site

from midwatch_client.demo.faults import Fault

if TYPE_CHECKING:
    from rich.table import Table

NEEDED = 3
"""So many of the faults must be found, each with its kind and exact line, for the demo to have worked."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One sighting: the incident, and where its finding points."""

    incident: Incident
    site: Site


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one planted fault. ``seen`` is the best sighting of it: right kind, and the nearest line."""

    fault: Fault
    seen: Seen | None

    @property
    def found(self) -> bool:
        """True where kind, file and line are right, and the line was witnessed."""
        return self.seen is not None and self.seen.site.exact and self.seen.site.line == self.fault.line


def sightings(incident: Incident, occurrences: Iterable[Occurrence]) -> list[Seen]:
    """All sightings of one incident that point at a line."""
    findings = [occurrence.finding for occurrence in occurrences]
    if incident.latest is not None:
        findings.append(incident.latest)
    return [Seen(incident, finding.site) for finding in findings if finding.site is not None]


def judge(faults: Sequence[Fault], seen: Sequence[Seen]) -> list[Verdict]:
    """Look each fault up among the sightings."""
    return [Verdict(fault, _best(fault, seen)) for fault in faults]


def passed(verdicts: Sequence[Verdict]) -> bool:
    """Whether enough faults were found."""
    return sum(verdict.found for verdict in verdicts) >= min(NEEDED, len(verdicts))


def table(verdicts: Sequence[Verdict]) -> Table:
    """What was planted and what was found, a row each."""
    from rich.table import Table

    from midwatch_client.console import Cell

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("planted", "at", "found", "at", "", "times"):
        shown.add_column(name, justify="right" if name == "times" else "left")
    for verdict in verdicts:
        fault, seen = verdict.fault, verdict.seen
        row = [fault.kind.value, f"{fault.file}:{fault.line}"]
        if seen is None:
            shown.add_row(*map(Cell, (*row, "not found", "", "no", "")))
            continue
        site, incident = seen.site, seen.incident
        answer = "yes" if verdict.found else "another line" if site.line != fault.line else "not exact"
        shown.add_row(*map(Cell, (*row, incident.kind.value, _short(site), answer, str(incident.count))))
    return shown


def _best(fault: Fault, seen: Sequence[Seen]) -> Seen | None:
    fitting = [one for one in seen if one.incident.kind is fault.kind and one.site.file.endswith(fault.file)]
    return min(fitting, key=lambda one: (abs(one.site.line - fault.line), not one.site.exact), default=None)


def _short(site: Site) -> str:
    return f"{'/'.join(site.file.split('/')[-2:])}:{site.line}"
