"""Kernels by family, read from their names: what they compute, on what type, and whether on tensor cores."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import lru_cache

import numpy as np

from midwatch.model.site import Site
from midwatch.model.trace import KernelFacts
from midwatch.trace.columns import KERNEL
from midwatch.trace.intervals import Ints, distinct, pick
from midwatch.trace.scene import Scene
from midwatch.trace.shapes import shape_text

_MOST = 24
_SHAPES = 4

_FAMILIES = (
    ("collective", r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|cross_device_reduce"),
    ("attention", r"flash|fmha|attention|attn|mha_|sdpa"),
    (
        "conv",
        r"conv|cudnn.*(?:fprop|dgrad|wgrad)|implicit_gemm|igemm_(?:fwd|bwd|wrw)|winograd|fprop|dgrad|wgrad|im2col",
    ),
    (
        "gemm",
        r"gemm|nvjet|cublas|cutlass|Cijk_|matmul|gemv|splitKreduce|_mm_|dot_kernel|wmma|ampere_.*_(?:nn|nt|tn|tt)\b",
    ),
    ("softmax", r"soft_?max"),
    ("norm", r"layer_?norm|batch_?norm|group_?norm|rms_?norm|bn_fw|bn_bw|RowwiseMoments|GammaBeta"),
    ("sort", r"sort|topk|radix"),
    ("index", r"index|gather|scatter|embedding|take|put_kernel"),
    ("reduction", r"reduce|cumsum|scan"),
    ("copy", r"copy|Memcpy|CatArray|transpose"),
    ("elementwise", r"elementwise|pointwise|triton_poi|fused_dropout|multi_tensor_apply|fill|tanh|relu|gelu"),
)
_COMPILED = tuple((family, re.compile(pattern, re.IGNORECASE)) for family, pattern in _FAMILIES)
_CORES = re.compile(
    r"tensorop|s16816|s1688|s884|h884|h1688|i16832|hmma|wgmma|gmma|wmma|mma_sync|nvjet|bf16bf16|f16f16|xmma.*(?:bf16|f16|tf32)"
    r"|tf32f32|tf32gemm|_bf16_|_fp16_|e4m3|e5m2|fp8|flash|MFMA|MI(?:16|32)x",
    re.IGNORECASE,
)
_NO_CORES = re.compile(r"simt|ffma|f32f32_f32f32_f32|(?<![a-z])sgemm|dgemm|_sgemm_", re.IGNORECASE)
_DTYPES = (
    ("bfloat16", r"bf16|bfloat16|nvjet_\w*?_t[a-z]t_|BBS|_BB_"),
    ("float16", r"half|f16(?!bf)|fp16|h1688|h884|nvjet_\w*?_h[a-z]h_|HHS"),
    ("float8", r"e4m3|e5m2|fp8"),
    ("tf32", r"tf32"),
    ("float64", r"double|dgemm|f64"),
    ("float32", r"float|f32|sgemm|fp32"),
    ("int64", r"\blong\b|int64"),
)
_DTYPES_COMPILED = tuple((dtype, re.compile(pattern, re.IGNORECASE)) for dtype, pattern in _DTYPES)
_FUNCTOR = re.compile(r"(\w*Functor\w*|\w+_kernel_cuda|\w+_kernel_impl\w*|\w+Ops(?=<))")
_NOISE = {"gpu_kernel_impl", "gpu_kernel_impl_nocast", "AUnaryFunctor", "BUnaryFunctor", "BinaryFunctor", "ReduceOps"}


@lru_cache(maxsize=16384)
def base_name(name: str) -> str:
    """A short name: without return type, templates and parameters, with the functor of a generic kernel kept."""
    text = name.removeprefix("void ")
    head = re.sub(r"\(anonymous namespace\)::", "", text)
    short = re.split(r"[<(]", head, maxsplit=1)[0].strip().rsplit("::", 1)[-1]
    if short in {"Kernel", "Kernel2"}:
        inner = re.search(r"<([\w:]+)", head)
        return inner[1].rsplit("::", 1)[-1] if inner else short
    if "at::native" in head:
        functors = [f for f in _FUNCTOR.findall(head) if f not in _NOISE and f != short]
        if functors:
            return f"{short} {functors[0]}"
    return short or name[:80]


@lru_cache(maxsize=16384)
def family_of(name: str) -> str:
    """The family of a kernel, ``other`` where its name says nothing."""
    if name.startswith(("Memcpy", "Memset")):
        return "copy"
    short = base_name(name)
    for text in (short, name):
        for family, pattern in _COMPILED:
            if pattern.search(text):
                return family
    return "other"


@lru_cache(maxsize=16384)
def tensor_cores(name: str) -> str:
    """``yes``, ``no`` or ``unknown``. Asked of matrix work only; the rest has no use for them."""
    if family_of(name) not in {"gemm", "conv", "attention"} or "splitKreduce" in name:
        return "unknown"
    if _NO_CORES.search(name):
        return "no"
    return "yes" if _CORES.search(name) else "unknown"


@lru_cache(maxsize=16384)
def dtype_of(name: str) -> str:
    """The type that a kernel works on, "" where its name does not say."""
    for dtype, pattern in _DTYPES_COMPILED:
        if pattern.search(name):
            return dtype
    return ""


def kernel_facts(scene: Scene) -> tuple[KernelFacts, ...]:
    """Families of kernels by total time."""
    device = scene.trace.device
    rows = np.flatnonzero(device.kind == KERNEL)
    groups: dict[str, list[int]] = defaultdict(list)
    by_name: dict[int, str] = {n: base_name(scene.trace.names[n]) for n in distinct(device.name[rows]).tolist()}
    for row, number in zip(rows.tolist(), device.name[rows].tolist(), strict=True):
        groups[by_name[number]].append(row)
    length = device.end - device.start
    busy = max(scene.busy.total, 1)
    ranked = sorted(groups.items(), key=lambda item: -int(length[item[1]].sum()))
    return tuple(_fact(scene, name, np.array(members, np.int64), length, busy) for name, members in ranked[:_MOST])


def _fact(scene: Scene, name: str, rows: Ints, length: Ints, busy: int) -> KernelFacts:
    trace = scene.trace
    weights: Counter[int] = Counter()
    for number, nanos in zip(trace.device.name[rows].tolist(), length[rows].tolist(), strict=True):
        weights[number] += nanos
    full = trace.names[weights.most_common(1)[0][0]]
    op, shapes = _operator(scene, rows)
    total = int(length[rows].sum())
    return KernelFacts(
        name=name,
        family=family_of(full),
        count=len(rows),
        total_ms=total / 1e6,
        median_us=float(np.median(length[rows])) / 1e3,
        share=min(total / busy, 1.0),
        tensor_cores=tensor_cores(full),
        dtype=dtype_of(full),
        op=op,
        shapes=shapes,
        site=_site(scene, rows),
    )


def _operator(scene: Scene, rows: Ints) -> tuple[str, tuple[str, ...]]:
    """The operator that launched most of them, and its commonest shapes."""
    trace, links = scene.trace, scene.links
    launchers = links.launcher[rows]
    ext = pick(trace.runtime.ext, launchers, trace.device.ext[rows])
    order = scene.ops_by_ext
    keys = trace.ops.ext[order]
    if not len(keys):
        return "", ()
    at = np.minimum(np.searchsorted(keys, ext), len(keys) - 1)
    found = order[at[(keys[at] == ext) & (ext > 0)]]
    if not len(found):
        return "", ()
    names, counts = np.unique(trace.ops.name[found], return_counts=True)
    name = int(names[counts.argmax()])
    shapes, counts = np.unique(trace.ops.shape[found[trace.ops.name[found] == name]], return_counts=True)
    common = shapes[np.argsort(-counts, kind="stable")][:_SHAPES].tolist()
    texts = [shape_text(*trace.shapes[s]) for s in common if s >= 0]
    return trace.names[name], tuple(t for t in texts if t)


def _site(scene: Scene, rows: Ints) -> Site | None:
    """Who launched them: the function under way at the launch, or the line last seen before it."""
    runtime = scene.trace.runtime
    longest = rows[np.argsort(scene.trace.device.start[rows] - scene.trace.device.end[rows], kind="stable")][:64]
    votes: Counter[Site] = Counter()
    for row in longest.tolist():
        call = int(scene.links.launcher[row])
        if call < 0:
            continue
        lane = int(runtime.lane[call])
        site = scene.sites.launching(
            scene.threads.native.get(lane, 0), lane, int(runtime.start[call]), int(runtime.end[call])
        )
        if site is not None:
            votes[site] += 1
    return votes.most_common(1)[0][0] if votes else None
