"""What the device did for a request: kernels by family, and copies."""

from __future__ import annotations

from collections import defaultdict

from midwatch.model.trace import KernelFacts

from midwatch_server.diagnosis.diff.hostparts import Found, Key
from midwatch_server.diagnosis.diff.side import Side
from midwatch_server.diagnosis.diff.values import Part

FAMILIES = {
    "gemm": "matrix products",
    "conv": "convolutions",
    "attention": "fused attention",
    "softmax": "softmax kernels",
    "norm": "normalisation kernels",
    "reduction": "reductions",
    "elementwise": "element-wise kernels",
    "index": "indexing kernels",
    "sort": "sorting kernels",
    "copy": "kernels that copy",
    "collective": "collectives",
    "other": "other kernels",
}


def device_parts(side: Side) -> dict[Key, Found]:
    """Return the work of the device per request; nothing where records of it are missing."""
    if not side.device_known:
        return {}
    groups: dict[str, list[KernelFacts]] = defaultdict(list)
    for kernels in side.summary.kernels:
        groups[kernels.family].append(kernels)
    found = {Key("kernels", family): _kernels(side, family, group) for family, group in groups.items()}
    for copies in side.summary.copies:
        name = f"{copies.direction} {copies.memory}".strip()
        whole = side.whole_requests
        part = Part(copies.device_ms / whole, copies.count / whole, 1.0, copies.device_ms / whole, copies.site)
        found[Key("copies", name)] = Found(f"copies {copies.direction} ({copies.memory})", part)
    return found


def _kernels(side: Side, family: str, group: list[KernelFacts]) -> Found:
    whole = side.whole_requests
    top = max(group, key=lambda kernels: kernels.total_ms)
    ms = sum(kernels.total_ms for kernels in group) / whole
    part = Part(ms, sum(kernels.count for kernels in group) / whole, 1.0, ms, top.site, precision(group))
    return Found(FAMILIES.get(family, f"{family} kernels"), part)


def precision(group: list[KernelFacts]) -> str:
    """Say on what type, and whether on tensor cores, most of the time of matrix work is spent; "" for other work."""
    if group[0].family not in ("gemm", "conv", "attention"):
        return ""
    spent: dict[str, float] = defaultdict(float)
    for kernels in group:
        cores = {"yes": " on tensor cores", "no": " without tensor cores"}.get(kernels.tensor_cores, "")
        spent[f"{kernels.dtype}{cores}".strip()] += kernels.total_ms
    return max(spent, key=lambda words: spent[words])
