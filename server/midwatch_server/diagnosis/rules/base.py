"""What every rule has in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from midwatch.model.finding import Finding, Kind

from midwatch_server.diagnosis.evidence import Evidence


class Rule(Protocol):
    """Finds one kind of cause. A rule names what it sees with its cost; `judge` decides what is worth a finding."""

    kind: Kind

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield the causes of this kind, in any order."""
        ...
