"""``graph_break``: compiled code is left and entered again inside a request.

Definition: a ``Torch-Compiled Region`` inside another one of the same thread. After a break, Dynamo runs the rest of
the function as compiled code of its own, called from the first, so each region inside is one break. Regions side by
side are functions that were compiled one by one, on purpose as a rule, and no break. The cost is the host's time from
the last operator before to the first after it: the code that could not be compiled, guards, and the way back. The gain
is the replay without that time; what fusion across the break would gain on top is not known from a trace.

Source: PyTorch's page on graph breaks; the report of a model with 137 ``.item()`` breaks that ran slower compiled than
eager, and 1.6 times faster without them. No threshold of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.trace import GraphBreakFacts

from midwatch_server.diagnosis.build import window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.phrases import look_at
from midwatch_server.diagnosis.words import count, ms, place, plural

MEASURE = "Compiled regions per request (one is whole), and the median latency"

ADVICE = (
    Advice(
        "Find the lines with TORCH_LOGS=graph_breaks, then compile with fullgraph=True so that a break is an error",
        "Each break returns to the interpreter, checks guards again, and keeps both sides from being fused",
        MEASURE,
    ),
    Advice(
        "Keep .item(), print, logging and branches on tensors out of the compiled function: tensors instead of "
        "numbers, torch.where instead of if",
        "They need the value on the host, which no graph can give",
        MEASURE,
    ),
)


class GraphBreak:
    """Breaks in the graphs of torch.compile."""

    kind = Kind.GRAPH_BREAK

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield at most one finding."""
        facts = evidence.summary.breaks if evidence.summary is not None else None
        if facts is not None and facts.count:
            yield _finding(evidence, facts)


def _finding(evidence: Evidence, facts: GraphBreakFacts) -> Finding:
    affected = max(facts.requests_affected, 1)
    each = facts.count / affected
    pieces = (facts.count + facts.calls) / affected
    at = f", the first in {place(facts.sites[0])}" if facts.sites else ""
    lines = [
        f"{plural(facts.count, 'break')} in {plural(facts.calls, 'call')} of compiled functions",
        f"{ms(facts.total_ms)} traced between operators around them{look_at(evidence, facts.starts_ms)}",
    ]
    if len(facts.sites) > 1:
        lines.append("Breaks in " + ", ".join(place(site) for site in facts.sites[:8]))
    return window_finding(
        Kind.GRAPH_BREAK,
        f"torch.compile's graph is cut into {count(pieces)} pieces {evidence.per(affected)}{at}: "
        f"{ms(facts.per_request_ms)} pass between them",
        site=facts.sites[0] if facts.sites else None,
        cost_ms=facts.per_request_ms,
        gain_ms=facts.recoverable_ms,
        wall_ms=evidence.wall_ms(facts.starts_ms, affected),
        occurrences=each,
        affected=affected,
        confidence=0.9,
        evidence=lines,
        advice=ADVICE,
        caveats=("What fusing across the breaks would gain is not in the figure",),
    )
