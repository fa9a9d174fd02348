"""``collective_wait``: the device is in collectives while nothing else runs.

Definition: kernels of NCCL or RCCL run for at least `MIN_SHARE` of the median step while no other work runs on the
device. What computation hides costs nothing and does not count. A collective runs from the arrival of this rank until
all have arrived and the data has moved, so one rank's trace can say that it waits, and neither for whom nor how long
the transfer alone would take. Therefore nothing is recoverable as far as this trace tells, and the finding is ranked by
what it costs; `midwatch analyze FOLDER` sets the ranks beside each other and names the one that arrives last.

Source: the semantics of NCCL's kernels; HolisticTraceAnalysis's overlap of communication and computation. A tenth of a
step is what its authors, too, take for worth looking at; below it, balance and buckets gain little.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind

from midwatch_server.diagnosis.build import window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.words import ms, plural

MIN_SHARE = 0.1

COMPARE = Advice(
    "Record all ranks in the same steps and compare them: midwatch analyze FOLDER",
    "The rank that arrives last waits for nobody and makes the others wait; its own trace shows why it is late",
    "The time in collectives of each rank",
)
OVERLAP = Advice(
    "If no rank is late, hide the transfer: smaller gradient buckets (bucket_cap_mb), no work that needs the result at "
    "once, fewer steps that communicate (no_sync while gradients accumulate)",
    "What runs beside computation costs nothing",
    "The exposed time in collectives per step",
)
LESS = Advice(
    "Send less: gradients in bfloat16 (a DDP communication hook), or sharding whose groups stay inside one node",
    "The transfer is proportional to the bytes and to the slowest link",
    "The exposed time in collectives per step",
)


class CollectiveWait:
    """Collectives that nothing hides."""

    kind = Kind.COLLECTIVE_WAIT

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield at most one finding."""
        summary = evidence.summary
        facts = summary.collective if summary is not None else None
        if summary is None or facts is None or evidence.device_lane_missing:
            return
        wall = evidence.wall_ms()
        if wall <= 0 or facts.exposed_ms < MIN_SHARE * wall:
            return
        hidden = max(facts.per_request_ms - facts.exposed_ms, 0.0)
        ranks = f" of {facts.world_size} ranks" if facts.world_size > 1 else ""
        in_all = sum(c.total_ms for c in summary.device.classes if c.name == "collective")
        length = f"{ms(facts.per_request_ms)} a {evidence.noun} on the device, {ms(hidden)} of it beside other work"
        total = f"{ms(in_all)} of {ms(summary.device.busy_ms)} of busy time"
        lines = [
            f"{plural(facts.count, 'collective')}{ranks} ({', '.join(facts.names)}): {length}",
            f"In the whole trace {total} are collectives: busy is not computing",
        ]
        if facts.host_wait_ms > 0:
            lines.append(f"The host waits for the device for {ms(facts.host_wait_ms)} of it")
        yield window_finding(
            Kind.COLLECTIVE_WAIT,
            f"Communication between ranks takes {ms(facts.exposed_ms)} of {ms(wall)} "
            f"{evidence.per(facts.requests_affected)} with nothing else on the device",
            site=None,
            cost_ms=min(facts.exposed_ms, wall),
            gain_ms=0.0,
            wall_ms=wall,
            occurrences=facts.count / max(facts.requests_affected, 1),
            affected=facts.requests_affected,
            confidence=0.9,
            evidence=lines,
            advice=(COMPARE, OVERLAP, LESS),
            caveats=(
                "One rank's trace cannot say for whom it waits, or how much of this is transfer: no gain is claimed",
            ),
        )
