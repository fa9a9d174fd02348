"""``recompile``: a compilation on the request path, after warm-up.

From a window or a spike alike: the time between the callbacks of Dynamo (or of the recording of a CUDA graph) inside
requests. The site is the line that called what was compiled, read in the first of them. A request of known shapes does
not compile, so what a replay without it gives is recoverable.

Source: `torch._dynamo.callback`, PyTorch's troubleshooting page on recompilation. No threshold of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.trace import CompileFacts

from midwatch_server.diagnosis.account import Account, Claim
from midwatch_server.diagnosis.build import gain_of, spike_finding, window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.phrases import explains, hidden
from midwatch_server.diagnosis.words import call, ms, place, plural

MEASURE = "Compile events after warm-up: there should be none"

ADVICE = (
    Advice(
        "Run every shape once before the service takes traffic, or pad inputs to a few sizes",
        "Each new shape, dtype or flag that a guard checks compiles again",
        MEASURE,
    ),
    Advice(
        "Compile with dynamic=True, or mark the changing dimension with torch._dynamo.mark_dynamic",
        "One dynamic graph then serves all sizes; TORCH_LOGS=recompiles names the guard that failed",
        MEASURE,
    ),
)


class Recompile:
    """Compilations inside requests."""

    kind = Kind.RECOMPILE

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield one finding a compiled function; of a spike, one for each function of the service that called one."""
        if evidence.summary is not None:
            for facts in evidence.summary.compiles:
                yield _from_window(evidence, facts)
        if evidence.account is not None:
            for claim in evidence.account.compilations:
                yield _from_spike(evidence, evidence.account, claim)


def _from_window(evidence: Evidence, facts: CompileFacts) -> Finding:
    affected = max(facts.requests_affected, 1)
    cost = facts.total_ms / affected
    gain = gain_of(cost, facts.recoverable_ms)
    at = f" in {place(facts.site)}" if facts.site else ""
    return window_finding(
        Kind.RECOMPILE,
        f"Compilation{at} ({facts.what}) takes {ms(cost)} {evidence.per(affected)}",
        site=facts.site,
        cost_ms=cost,
        gain_ms=gain,
        wall_ms=evidence.wall_with_ms(cost, affected),
        occurrences=facts.count / affected,
        affected=affected,
        confidence=0.9,
        evidence=(f"{plural(facts.count, 'compile event')}, {ms(facts.total_ms)} traced", *hidden(cost, gain)),
        advice=ADVICE,
    )


def _from_spike(evidence: Evidence, account: Account, claim: Claim) -> Finding:
    triggers = sorted({event.trigger for event in claim.compiles if event.trigger})
    ids = [event.compile_id for event in claim.compiles if event.compile_id]
    what = f" ({', '.join(triggers)})" if triggers else ""
    called = f"for {call(claim.site.callee)} " if claim.site and claim.site.callee else ""
    at = f"{called}in {place(claim.site)}" if claim.site else "on the request path"
    lines = [f"{plural(len(claim.compiles), 'compile event')}{what}, {ms(claim.ms)} in all"]
    if ids:
        lines.append("Compile ids: " + ", ".join(ids[:8]))
    if evidence.workload.inputs:
        lines.append("Inputs of the request: " + ", ".join(evidence.workload.inputs))
    return spike_finding(
        Kind.RECOMPILE,
        f"Compilation {at}{what} took {ms(claim.ms)}",
        account,
        claim,
        occurrences=float(len(claim.compiles)),
        confidence=0.95,
        evidence=(*lines, explains(account, claim)),
        advice=ADVICE,
    )
