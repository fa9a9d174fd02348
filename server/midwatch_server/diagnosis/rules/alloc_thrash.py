"""``alloc_thrash`` and, where it happens once, ``first_call``: the device's allocator on the request path.

Definition: calls of cudaMalloc, cudaFree, cudaHostAlloc and their HIP names inside requests. PyTorch's caching
allocator makes them only while its pool grows, so memory that is given back half as often as it is taken, or calls in
at least half of the requests, mean thrashing; memory mostly taken, in fewer requests, means a pool that still grows.
The gain comes from the replay without any of the calls: one that runs while the device has work in line gains nothing.

Source: PyTorch's notes on memory management; the reports in which ``empty_cache()`` in every step caused both. No
threshold of its own beyond the half.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.trace import AllocFacts

from midwatch_server.diagnosis.build import gain_of, window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.phrases import hidden
from midwatch_server.diagnosis.words import ms, place, plural

THRASH = (
    Advice(
        "Take torch.cuda.empty_cache() off the request path, and leave the caching allocator on",
        "Memory given back to the driver has to be fetched again, and cudaFree waits for the device",
        "cudaMalloc and cudaFree calls per request: none after warm-up",
    ),
    Advice(
        "Allocate pinned buffers once and reuse them",
        "cudaHostAlloc maps pages and takes milliseconds",
        "cudaHostAlloc calls per request",
    ),
)
AT_LEAST = (
    "A lower bound: the calls alone are taken out, while what the host does right after one is slow, too; on an H200 "
    "the Python and the launches that followed took twice as long"
)
WARM_UP = (
    Advice(
        "Run the largest shapes once before the service takes traffic",
        "The caching allocator then has its memory; this cost is warm-up and does not come back",
        "The first requests after a start",
    ),
)


class AllocThrash:
    """Allocator calls inside requests."""

    kind = Kind.ALLOC_THRASH

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield one finding for all allocator calls together."""
        summary = evidence.summary
        if summary is None or not summary.allocs:
            return
        affected = max(1, *(facts.requests_affected for facts in summary.allocs))
        cost = sum(facts.total_ms for facts in summary.allocs) / affected
        frees = sum(facts.count for facts in summary.allocs if "Free" in facts.api)
        whole = max(summary.window.requests, 1)
        taken = sum(facts.count for facts in summary.allocs) - frees
        thrash = frees * 2 >= max(taken, 1) or (whole > 1 and affected * 2 >= whole)
        longest = max(summary.allocs, key=lambda facts: facts.total_ms)
        gain = gain_of(cost, longest.recoverable_ms)
        at = f", most of it in {place(longest.site)}" if longest.site else ""
        yield window_finding(
            Kind.ALLOC_THRASH if thrash else Kind.FIRST_CALL,
            f"The device's allocator ({_calls(summary.allocs)}) takes {ms(cost)} {evidence.per(affected)}{at}"
            + ("" if thrash else ": memory is taken for the first time"),
            site=longest.site,
            cost_ms=cost,
            gain_ms=gain,
            wall_ms=evidence.wall_with_ms(cost, affected),
            occurrences=sum(facts.count for facts in summary.allocs) / affected,
            affected=affected,
            confidence=0.8,
            evidence=_evidence(summary.allocs, cost, gain),
            advice=THRASH if thrash else WARM_UP,
            caveats=(AT_LEAST,) if thrash else (),
        )


def _evidence(allocs: tuple[AllocFacts, ...], cost: float, gain: float) -> Iterable[str]:
    for facts in allocs:
        yield f"{facts.api}: {plural(facts.count, 'call')}, {ms(facts.total_ms)} traced"
    yield from hidden(cost, gain)


def _calls(allocs: tuple[AllocFacts, ...]) -> str:
    counts: dict[str, int] = {}
    for facts in allocs:
        counts[facts.api] = counts.get(facts.api, 0) + facts.count
    return " and ".join(f"{number} {api}" for api, number in counts.items())
