"""``hot_sync``: the host waits for the device inside a request although more device work follows.

From a window: a wait of `WaitFacts` after which the request still launched work. Waits that only hand over the result
(``handover``) are none. What one costs is the wait itself; what it would gain is the replay's word, so that a wait in a
device-bound or launch-bound request, which moves elsewhere when it is removed, claims nothing. Waits that gain little
each, because the next one takes the place of the one removed, are a finding together: see `jointly`.

From a spike: samples that found the thread inside a call that reads from the device. What the device did meanwhile is
not known then, so the gain is an upper bound, and a wait after which nothing else was seen may be the hand-over.

Source: PyTorch's performance tuning guide ("avoid unnecessary CPU-GPU synchronization") and the service that gave
Midwatch its story; there is no threshold of its own, only the judge's 5 %.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.site import Site
from midwatch.model.trace import WaitFacts

from midwatch_server.diagnosis.account import Account, Claim
from midwatch_server.diagnosis.activity import SYNCS, Activity
from midwatch_server.diagnosis.build import spike_finding, window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.phrases import explains, look_at, seen_in, thread_of
from midwatch_server.diagnosis.rules.jointly import inside, joint_finding, told_jointly
from midwatch_server.diagnosis.words import method, ms, place, plural, size
from midwatch_server.diagnosis.worth import NOTE_SHARE

CALLS = {
    "item": "Reading a scalar back (`.item()` or the like)",
    "d2h": "A blocking copy to the host",
    "h2d_pageable": "A blocking copy from pageable memory to the device",
    "stream_sync": "A stream synchronize",
    "event_sync": "An event synchronize",
    "device_sync": "`torch.cuda.synchronize()`",
    "free": "A cudaFree, which waits for the device,",
    "other": "A call that waits for the device",
}
"""The subject of the title where the call itself is not known by name."""

COPYING = frozenset({"to", "cuda", "copy_", "empty_cache"})
"""Calls that may wait for the device, too, and are known to where a wait was recorded."""

MEASURE = "The median latency, and the wait at this line in a new window: it should be gone"

ADVICE = {
    "item": Advice(
        "Keep the value on the device and read it once, after the last launch of the request, or every Nth request",
        "Each read-back stops the host until the device has done everything queued; what follows is launched late",
        MEASURE,
    ),
    "d2h": Advice(
        "Copy into pinned memory with non_blocking=True and wait for it where the value is used, after the last launch",
        "A copy to pageable memory blocks the host until the device has reached it",
        MEASURE,
    ),
    "h2d_pageable": Advice(
        "Allocate the source once with pin_memory=True and copy with non_blocking=True",
        "A copy from pageable memory blocks the host; pinning it in every request would cost more than it gains",
        MEASURE,
    ),
    "free": Advice(
        "Take empty_cache() off the request path and leave the caching allocator on",
        "Giving memory back to the driver waits for the device, and the next allocation pays again",
        MEASURE,
    ),
    "other": Advice(
        "Remove the synchronize, or move it behind the last launch; for timing record torch.cuda.Event pairs, "
        "and read them after the request",
        "Work on one stream is ordered already; the host only has to wait where it uses a result",
        MEASURE,
    ),
}


class HotSync:
    """Waits for the device in the middle of a request."""

    kind = Kind.HOT_SYNC

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield one finding a waiting site, and one of all where they gain more together."""
        if evidence.summary is not None:
            for wait in evidence.summary.waits:
                if wait.count > wait.handover:
                    yield _from_window(evidence, wait)
            joint = told_jointly(evidence)
            if joint is not None:
                yield joint_finding(evidence, joint)
        if evidence.account is not None:
            for claim in evidence.account.places:
                if claim.seen_as is Activity.SYNC:
                    yield _from_spike(evidence.account, claim)


def _subject(cause: str, site: Site | None) -> str:
    if site is not None and site.callee in SYNCS | COPYING:
        return method(site.callee)
    return CALLS.get(cause, CALLS["other"])


def _advice(cause: str) -> tuple[Advice, ...]:
    return (ADVICE.get(cause, ADVICE["other"]),)


def _from_window(evidence: Evidence, wait: WaitFacts) -> Finding:
    cost = wait.per_request_ms
    route = evidence.route_of(wait.starts_ms, wait.count)
    wall = evidence.wall_ms(wait.starts_ms, wait.requests_affected)
    known = not evidence.device_lane_missing
    gain = evidence.untraced(wait.recoverable_ms) if known else 0.0
    where = f" in {place(wait.site)}" if wait.site else ""
    after = round(wait.launches_after)
    more = f"{plural(after, 'launch')} follow{'s' if after == 1 else ''}" if after else "more device work follows"
    return window_finding(
        Kind.HOT_SYNC,
        f"{_subject(wait.cause, wait.site)}{where} makes the host wait {ms(cost)} "
        f"{evidence.per(wait.requests_affected, route=route)} while {more}",
        site=wait.site,
        cost_ms=cost,
        gain_ms=gain,
        wall_ms=wall,
        occurrences=(wait.count - wait.handover) / max(wait.requests_affected, 1),
        affected=wait.requests_affected,
        confidence=(0.9 if wait.site and wait.site.exact else 0.8) if known else 0.5,
        evidence=_window_evidence(evidence, wait, gain, wall),
        advice=_advice(wait.cause),
        caveats=() if known else ("Kernel records are missing, so what removing this wait would gain is not known",),
        route=route,
    )


def _window_evidence(evidence: Evidence, wait: WaitFacts, gain: float, wall: float) -> Iterable[str]:
    yield (
        f"{wait.api}: {plural(wait.count, 'wait')}, {ms(wait.total_ms)} traced, the longest {ms(wait.max_ms)}"
        f"{look_at(evidence, wait.starts_ms)}"
    )
    if wait.handover:
        yield f"{wait.handover} of them hand over the result at the end of a request and are not counted"
    if wait.copy_bytes:
        yield f"{size(wait.copy_bytes / max(wait.count, 1))} copied each time"
    if evidence.device_lane_missing:
        return
    if wait.device_busy_ms:
        yield f"The device worked for {ms(wait.device_busy_ms)} of the {ms(wait.total_ms)}"
    together = told_jointly(evidence)
    if gain < NOTE_SHARE * wall and together is not None and inside(wait) and together.cause in {"", wait.cause}:
        yield (
            f"Replayed without this wait alone, the {evidence.noun} gains {ms(gain)}: another takes its place; "
            f"it gains {ms(evidence.untraced(together.recoverable_ms))} together with the others"
        )
    elif gain < NOTE_SHARE * wall:
        yield (
            f"Replayed without the wait, the {evidence.noun} gains {ms(gain)} of {ms(wall)}: "
            "the time would pass elsewhere, so this is not the cause"
        )
    else:
        yield f"Replayed without the wait, the {evidence.noun} takes {ms(wall - gain)} instead of {ms(wall)}"


def _from_spike(account: Account, claim: Claim) -> Finding:
    callee = claim.site.callee if claim.site else ""
    cause = "other" if callee == "synchronize" else "d2h" if callee in ("cpu", "numpy") else "item"
    where = (f" in {place(claim.site)}" if claim.site else "") + thread_of(claim)
    caveats = ["What the device did meanwhile is not known without a window: removing the wait may gain less"]
    if claim.last:
        caveats.append("Nothing was seen of this thread after it: it may be the hand-over of the result")
    return spike_finding(
        Kind.HOT_SYNC,
        f"{_subject(cause, claim.site)}{where} made the host wait {ms(claim.ms)} for the device",
        account,
        claim,
        occurrences=1.0,
        confidence=0.4 if claim.last else 0.6,
        evidence=(seen_in(claim), explains(account, claim)),
        advice=_advice(cause),
        caveats=caveats,
    )
