"""``transfer_bound``: copies between host and device take a good part of the request.

Definition: the copies of one direction to or from *pageable* memory keep the device's copy engine busy for at least
`MIN_SHARE` of the request. The copies' own time on the device counts, never the time that the host waited in the call,
since that is mostly other work that the copy has to wait for. The gain is the same bytes at the speed that the device's
link to the host allows (`peaks.PINNED_GB_S`), or at `UNKNOWN_GB_S` where the device is not known.

Source: pinned copies reach four fifths of the link, 24 GB/s on PCIe 4 x16 and 50 on PCIe 5, pageable ones 3 to 16, as
NVIDIA's bandwidthTest sample measures them; NVIDIA's best practices guide; PyTorch's tutorial on pin_memory and
non_blocking.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.trace import CopyFacts

from midwatch_server.diagnosis.build import window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.peaks import pinned_gb_s
from midwatch_server.diagnosis.words import ms, place, plural, size

MIN_SHARE = 0.1
UNKNOWN_GB_S = 20.0

ADVICE = (
    Advice(
        "Keep the host side in memory that is pinned once (pin_memory=True) and reused; copy with non_blocking=True",
        "The device reads pinned memory directly; pageable memory goes through a small staging buffer",
        "The copies' time per request",
    ),
    Advice(
        "Copy less: a smaller dtype, only the rows that changed, or build the tensor on the device",
        "The time is proportional to the bytes",
        "The bytes copied per request",
    ),
)


class TransferBound:
    """Copies that take a good part of the request."""

    kind = Kind.TRANSFER_BOUND

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield one finding a direction and memory kind."""
        if evidence.summary is None:
            return
        whole = evidence.usual_count
        wall = evidence.wall_ms()
        for copies in evidence.summary.copies:
            cost = copies.device_ms / whole
            if "pageable" in copies.memory.lower() and cost >= MIN_SHARE * wall > 0:
                yield _finding(evidence, copies, cost, wall, whole)


def _finding(evidence: Evidence, copies: CopyFacts, cost: float, wall: float, whole: int) -> Finding:
    known = pinned_gb_s(evidence.summary.device.names) if evidence.summary else 0.0
    link = known or UNKNOWN_GB_S
    pinned_ms = copies.bytes / whole / (link * 1e6)
    speed = copies.bytes / (copies.device_ms * 1e6)
    at = f" in {place(copies.site)}" if copies.site else ""
    return window_finding(
        Kind.TRANSFER_BOUND,
        f"Copying {size(copies.bytes / whole)} from or to pageable memory{at} takes {ms(cost)} {evidence.per(whole)}",
        site=copies.site,
        cost_ms=cost,
        gain_ms=cost - pinned_ms,
        wall_ms=wall,
        occurrences=copies.count / whole,
        affected=whole,
        confidence=0.7,
        evidence=(
            f"{plural(copies.count, 'copy')} {copies.memory} ({copies.direction}), {size(copies.bytes)} in all",
            f"{ms(copies.device_ms)} on the device: {speed:.1f} GB/s",
            f"The gain assumes {link:.0f} GB/s from pinned memory"
            + (", by the device's link to the host" if known else ""),
        ),
        advice=ADVICE,
        caveats=("How fast pinned copies are on this machine is not measured",),
    )
