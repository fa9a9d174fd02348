"""``first_call``: a shape that the service had not seen since its start took far longer than usual.

Definition: a spike whose rule is ``new_shape`` (over three times the route's median, after warm-up) in which no compile
event was seen (with one it is `recompile`), and whose units of that shape ran inside of it for more than
`MIN_UNITS_SHARE` of an overrun of at least `MIN_OVERRUN_MS`: a request that waited for something else only happens to
bring a new shape.
Autotuning, lazy initialisation and module loading do this once per shape. What the units took is recoverable by warming
that shape up.

Source: the detector's rule of three times the median; cuDNN's benchmark mode, which tunes again for every shape; below
10 ms nobody would warm up for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.requests import UnitRecord
from midwatch.model.site import Site
from midwatch.model.spike import Spike

from midwatch_server.diagnosis.account import Account
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.spans import total_ms
from midwatch_server.diagnosis.words import ms, place

MIN_OVERRUN_MS = 10.0
MIN_UNITS_SHARE = 0.5

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
        units = _of_its_shape(spike)
        units_ms = total_ms((unit.start_unix_ns, unit.start_unix_ns + unit.duration_ns) for unit in units)
        if account.overrun_ms < MIN_OVERRUN_MS or units_ms < MIN_UNITS_SHARE * account.overrun_ms:
            return
        cost_ms = min(units_ms, account.overrun_ms)
        shape = ", ".join(spike.request.workload.inputs) or "a new shape"
        usual = f" instead of {ms(account.usual_ms)}" if account.usual_ms else ""
        yield Finding(
            kind=Kind.FIRST_CALL,
            title=f"The first request with {shape} took {ms(account.duration_ms)}{usual}",
            site=_slowest(account),
            per_request_ms=cost_ms,
            share_of_request=cost_ms / account.duration_ms,
            recoverable_ms=cost_ms,
            occurrences_per_request=1.0,
            requests_affected=1,
            confidence=0.6,
            evidence=(
                f"{ms(units_ms)} of it in {units[0].name or 'the model'} with this shape{_on(units[0])}",
                *(f"{ms(claim.ms)} of it in {place(claim.site)}" for claim in account.places[:2] if claim.site),
            ),
            advice=ADVICE,
            caveats=("Whether later requests of this shape are fast again is not known from this one",),
            share_of_overrun=cost_ms / account.overrun_ms,
        )


def _of_its_shape(spike: Spike) -> list[UnitRecord]:
    """Return the units of the request's shape that began and ended in it: no others can have been its own."""
    start, key = spike.request.start_unix_ns, spike.request.workload.key
    end = start + spike.request.duration_ns
    return [
        unit
        for unit in spike.units
        if unit.workload.key == key and start <= unit.start_unix_ns and unit.start_unix_ns + unit.duration_ns <= end
    ]


def _on(unit: UnitRecord) -> str:
    return f", on thread {unit.thread_name}" if unit.thread_name else ""


def _slowest(account: Account) -> Site | None:
    return account.places[0].site if account.places else None
