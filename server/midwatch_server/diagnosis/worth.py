"""What is worth a person's time: the one rule by which what a window shows is a finding, or else a note.

A finding of a window passes both of these; a spike has a rule of its own (see `judge`), since it is one request.

1. It gains an affected request at least `NOTE_SHARE` of it: the design's rule. A `collective_wait`, whose gain one
   rank's trace cannot tell, is judged by what it costs.
2. Either it recurs: `RARE` of the requests of its route have it, `FEW` of them at least in a window that holds more,
   it happens as often (requests that share a batch share its stall) unless it takes `STALL_MS`, and spread over all
   requests of that route it gains at least `floor_ms` each. Or it makes its request stand out: `REMARKABLE` times as
   long as the median of its route, and by `STALL_MS` at least.

Sources: windows of services with one fault each, or none, on an H200 (`tests/data`). What every host has (young
collections, first allocations, turns at the interpreter, half a millisecond each while a window is open) costs 0.1 to
0.6 ms where it happens, and 0.17 ms at most, or 3.4 %, spread over all requests: the first allocations of a service
without a fault hit 11 of 31 requests for 0.33 ms, which is 0.12 ms a request. The least of the planted faults gains
every request 0.5 ms of 7.3 ms. And for `STALL_MS` a thread may stand still at any line without a cause in the code:
the kernel's time slice is 3 ms, the interpreter's usual switch interval 5 ms.
"""

from __future__ import annotations

from midwatch.model.finding import Finding, Kind

from midwatch_server.diagnosis.evidence import Evidence

NOTE_SHARE = 0.05
FLOOR_MS = 0.2

RARE = 0.2
FEW = 2
REMARKABLE = 3.0
STALL_MS = 5.0


def floor_ms(request_ms: float) -> float:
    """Return what a cause that recurs has to gain each request of ``request_ms``, in milliseconds."""
    return max(NOTE_SHARE * request_ms, FLOOR_MS)


def at_stake_ms(finding: Finding) -> float:
    """Return what a finding is judged and ranked by: its gain, or its cost where one trace cannot tell a gain."""
    return finding.per_request_ms if finding.kind is Kind.COLLECTIVE_WAIT else finding.recoverable_ms


def is_worth_telling(finding: Finding, evidence: Evidence) -> bool:
    """Return whether what a window shows is worth a finding."""
    gain_ms = at_stake_ms(finding)
    if finding.share_of_request <= 0 or gain_ms <= 0:
        return False
    request_ms = finding.per_request_ms / finding.share_of_request
    if gain_ms < NOTE_SHARE * request_ms:
        return False
    count, usual_ms = evidence.like(finding.route, request_ms)
    if request_ms >= REMARKABLE * usual_ms and gain_ms >= STALL_MS:
        return True
    share = min(finding.requests_affected / count, 1.0)
    few = min(FEW, evidence.summary.window.requests if evidence.summary else count)
    times = finding.requests_affected * finding.occurrences_per_request
    several = finding.requests_affected >= few and (round(times) >= few or gain_ms >= STALL_MS)
    return several and share >= RARE and share * gain_ms >= floor_ms(usual_ms)
