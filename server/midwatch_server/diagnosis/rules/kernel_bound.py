"""``kernel_bound``: device time dominates, and a remedy whose gain can be predicted is known.

Definition: the device works for at least `MIN_BUSY_SHARE` of the median request (of the part of it that is the model's
for certain: `Evidence.bound_share`), and one of these holds.

* *No tensor cores*: matrix products or convolutions in fp32 on kernels that use none take `MIN_FAMILY_SHARE` of the
  device's time. Gain: half of the ratio of the data sheets' peak rates, four times at most (`peaks`), so it is named
  only for devices in that table.
* *Unfused attention*: softmax kernels take `MIN_FAMILY_SHARE` beside matrix products, and no fused attention kernel
  runs. Gain: half of the softmax kernels' time; FlashAttention (Dao et al. 2022) reports more for attention as a whole.
* *Memory-bound chains*: element-wise kernels take `MIN_CHAIN_SHARE`, none of them fused already. Gain: half of their
  time where at least `MIN_CHAIN_KERNELS` of them run in a request, as if they fused in pairs: one pass over memory
  instead of two.

Sources: the vendors' data sheets (`peaks`), PyTorch's performance tuning guide (tensor cores, fusing point-wise
operations), FlashAttention. Device time is not corrected for the profiler, which slows the host. A gain ends where
the host becomes the limit. A device-bound request without such a remedy is no finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.trace import KernelFacts, RequestFacts, TraceSummary

from midwatch_server.diagnosis.build import window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.peaks import Peak, peak_of, predicted_speedup
from midwatch_server.diagnosis.words import brief, count, ms, percent, place

MIN_BUSY_SHARE = 0.4
MIN_FAMILY_SHARE = 0.15
MIN_CHAIN_SHARE = 0.4
MIN_CHAIN_KERNELS = 4
MIN_CHAIN_US = 10.0
WHOLE = 10
"""From so many on a number of kernels per request is shown without a decimal: it is scaled from the whole window's."""
FUSED_MARKS = ("triton", "multi_tensor", "fused", "foreach")

MEASURE = "The median latency, the device's busy time per request, and the model's accuracy on a fixed set"

TF32 = Advice(
    "Set torch.set_float32_matmul_precision('high')",
    "fp32 products then run on tensor cores with TF32's 10 bits of mantissa; weights and results stay fp32",
    MEASURE,
)
HALF = Advice(
    "Run the model under torch.autocast in bfloat16, or in float16 where the device has no bfloat16",
    "Half-precision products run on tensor cores and move half the bytes",
    MEASURE,
)
ATTENTION = Advice(
    "Use torch.nn.functional.scaled_dot_product_attention (in transformers: attn_implementation='sdpa')",
    "The fused kernel keeps the scores on chip instead of writing and reading them for the softmax",
    MEASURE,
)
FUSE = Advice(
    "torch.compile the module that launches these kernels",
    "A fused chain passes over memory once instead of once per operator",
    "The median latency and the number of element-wise kernels per request",
)


class KernelBound:
    """Device time that a known remedy would shorten."""

    kind = Kind.KERNEL_BOUND

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield one finding a remedy."""
        summary, request = evidence.summary, evidence.median_request()
        if summary is None or request is None or not summary.device.kernels or evidence.device_lane_missing:
            return
        if evidence.bound_share()[0] < MIN_BUSY_SHARE:
            return
        for find in (_no_tensor_cores, _unfused_attention, _chains):
            finding = find(evidence, summary, request)
            if finding is not None:
                yield finding


def _finding(
    evidence: Evidence,
    request: RequestFacts,
    families: Sequence[KernelFacts],
    *,
    title: str,
    gain: float,
    estimate: str,
    advice: tuple[Advice, ...],
    confidence: float,
) -> Finding:
    whole = evidence.usual_count
    scale = _per_request(evidence, request)
    cost = _time(families, request)
    wall = evidence.wall_ms()
    top = max(families, key=lambda kernels: kernels.total_ms)
    headroom = max(wall - evidence.untraced(request.host_busy_ms), 0.0)
    at = f" (launched in {place(top.site)})" if top.site else ""
    return window_finding(
        Kind.KERNEL_BOUND,
        f"{title} {ms(cost)} of {ms(wall)} {evidence.per(whole)}{at}",
        site=top.site,
        cost_ms=cost,
        gain_ms=min(gain, headroom),
        wall_ms=wall,
        occurrences=sum(kernels.count for kernels in families) * scale,
        affected=whole,
        confidence=confidence,
        evidence=(
            _device_works(evidence),
            *(_family(kernels, scale, whole) for kernels in sorted(families, key=lambda one: -one.total_ms)[:3]),
            estimate,
        ),
        advice=advice,
        caveats=("The gain is an estimate, not a replay; check the model's accuracy after the change",),
    )


def _device_works(evidence: Evidence) -> str:
    share, whole = evidence.bound_share()
    return f"The device works for {percent(share)} of the {f'median {whole}' if whole == evidence.noun else whole}"


def _per_request(evidence: Evidence, request: RequestFacts) -> float:
    """Return what to multiply a number of kernels of the window with: requests that were cut hold some of them, too."""
    kernels = evidence.summary.device.kernels if evidence.summary else 0
    return request.kernels / kernels if request.kernels and kernels else 1 / evidence.usual_count


def _family(kernels: KernelFacts, scale: float, requests: int) -> str:
    times = kernels.count * scale
    each = f"{count(round(times) if times >= WHOLE else times)} per request" if requests > 1 else count(kernels.count)
    share = percent(kernels.share)
    return f"{brief(kernels.name)}: {each}, median {kernels.median_us:.1f} us, {share} of the device's time"


def _time(families: Iterable[KernelFacts], request: RequestFacts) -> float:
    return sum(kernels.share for kernels in families) * request.device_busy_ms


def _no_tensor_cores(evidence: Evidence, summary: TraceSummary, request: RequestFacts) -> Finding | None:
    slow = [k for k in summary.kernels if k.family in ("gemm", "conv") and k.tensor_cores == "no" and _is_fp32(k)]
    peak = _peak(summary)
    if sum(k.share for k in slow) < MIN_FAMILY_SHARE or peak is None:
        return None
    factor = predicted_speedup(peak)
    what = "Matrix products" if all(k.family == "gemm" for k in slow) else "Convolutions and matrix products"
    return _finding(
        evidence,
        request,
        slow,
        title=f"{what} in fp32 without tensor cores take",
        gain=_time(slow, request) * (1 - 1 / factor),
        estimate=f"The gain assumes {factor:.1f} times the speed with {peak.precision}: half of the ratio of the peak "
        f"rates of {summary.device.names[0]} ({peak.tensor:.0f} to {peak.fp32:.0f} TFLOPS), at most 4",
        advice=(TF32, HALF) if peak.precision == "TF32" else (HALF,),
        confidence=0.85,
    )


def _is_fp32(kernels: KernelFacts) -> bool:
    return kernels.dtype in ("float32", "float", "f32", "fp32", "")


def _peak(summary: TraceSummary) -> Peak | None:
    peaks = [peak_of(name) for name in summary.device.names]
    return peaks[0] if peaks else None


def _unfused_attention(evidence: Evidence, summary: TraceSummary, request: RequestFacts) -> Finding | None:
    softmax = [k for k in summary.kernels if k.family == "softmax"]
    families = {k.family for k in summary.kernels}
    if sum(k.share for k in softmax) < MIN_FAMILY_SHARE or "gemm" not in families or "attention" in families:
        return None
    return _finding(
        evidence,
        request,
        softmax,
        title="Softmax kernels of an attention that is not fused take",
        gain=_time(softmax, request) / 2,
        estimate="The gain assumes half of the softmax time, since a fused attention never writes the scores to memory "
        "(FlashAttention, Dao et al. 2022)",
        advice=(ATTENTION,),
        confidence=0.7,
    )


def _chains(evidence: Evidence, summary: TraceSummary, request: RequestFacts) -> Finding | None:
    loose = [
        k
        for k in summary.kernels
        if k.family == "elementwise"
        and k.median_us >= MIN_CHAIN_US
        and not any(mark in k.name.lower() for mark in FUSED_MARKS)
    ]
    each = sum(k.count for k in loose) * _per_request(evidence, request)
    if sum(k.share for k in loose) < MIN_CHAIN_SHARE or each < MIN_CHAIN_KERNELS:
        return None
    return _finding(
        evidence,
        request,
        loose,
        title="Element-wise kernels, each with its own pass over memory, take",
        gain=_time(loose, request) / 2,
        estimate="The gain assumes that the kernels fuse in pairs: one pass over memory instead of two",
        advice=(FUSE,),
        confidence=0.5,
    )
