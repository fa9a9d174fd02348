"""``first_call``: a shape that the service had not seen since its start took far longer than usual.

Definition: a spike whose rule is ``new_shape`` (over three times the route's median, after warm-up) in which no compile
event was seen; with one it is `recompile`. Autotuning, lazy initialisation and module loading do this once per shape.
The whole overrun is recoverable by warming that shape up.

Source: the detector's rule of three times the median; cuDNN's benchmark mode, which tunes again for every shape.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.site import Site

from midwatch_server.diagnosis.account import Account
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.words import ms, place

ADVICE = (
    Advice(
        "Run this shape once before the service takes traffic, or pad inputs to a few sizes",
        "Autotuning, lazy initialisation and memory for a new shape are paid by the first request that brings it",
        "The latency of the first request of each shape",
    ),
)


class FirstCall:
    """The first request of a new shape."""

    kind = Kind.FIRST_CALL

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield at most one finding, for a spike of a new shape."""
        spike, account = evidence.spike, evidence.account
        if spike is None or account is None or spike.rule != "new_shape" or account.compilations:
            return
        shape = ", ".join(spike.request.workload.inputs) or "a new shape"
        usual = f" instead of {ms(account.usual_ms)}" if account.usual_ms else ""
        yield Finding(
            kind=Kind.FIRST_CALL,
            title=f"The first request with {shape} took {ms(account.duration_ms)}{usual}",
            site=_slowest(account),
            per_request_ms=account.overrun_ms,
            share_of_request=account.overrun_ms / account.duration_ms if account.duration_ms else 0.0,
            recoverable_ms=account.overrun_ms,
            occurrences_per_request=1.0,
            requests_affected=1,
            confidence=0.6,
            evidence=tuple(
                f"{ms(claim.ms)} of it in {place(claim.site)}" for claim in account.places[:2] if claim.site
            ),
            advice=ADVICE,
            caveats=("Whether later requests of this shape are fast again is not known from this one",),
            share_of_overrun=1.0,
        )


def _slowest(account: Account) -> Site | None:
    return account.places[0].site if account.places else None
