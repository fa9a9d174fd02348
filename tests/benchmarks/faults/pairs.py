"""Faulty services and their repaired twins: what a window of the one predicts, and what the other gains."""

from __future__ import annotations

from dataclasses import dataclass

from faults.expected import Expected


@dataclass(frozen=True, slots=True)
class Pair:
    """One service that also runs with ``--repaired``.

    ``mends`` says what is changed. Where ``suspect``, the line in question gains nothing, so the finding expected is
    another one and the prediction is that of the wait at the line marked ``# SUSPECT``.
    """

    expected: Expected
    mends: str
    suspect: str = ""


PAIRS = (
    Pair(Expected("item_metric", "hot_sync"), "sync: .item() of 16 requests read at once"),
    Pair(Expected("cpu_logging", "hot_sync"), "sync: .cpu() moved behind the last launch"),
    Pair(Expected("sync_stages", "hot_sync"), "sync: synchronize() removed"),
    Pair(Expected("any_check", "hot_sync"), "sync: `if` on the device moved behind the last launch"),
    Pair(Expected("pageable_copy", "transfer_bound"), "copy in: pinned memory, non_blocking"),
    Pair(Expected("result_copy", "transfer_bound"), "copy out: into pinned memory"),
    Pair(Expected("tiny_kernels", "launch_bound"), "tiny kernels: captured in a CUDA graph"),
    Pair(Expected("split_norm", "launch_bound"), "fusion: nine steps become layer_norm"),
    Pair(Expected("fp32_gemm", "kernel_bound"), "dtype: TF32 instead of float32"),
    Pair(Expected("empty_cache", "alloc_thrash"), "allocator: empty_cache() removed"),
    Pair(Expected("python_gap", "host_gap"), "Python between the stages: computed before"),
    Pair(Expected("gc_each", "gc_pause"), "gc.collect() removed"),
    Pair(Expected("item_free", "launch_bound"), "a sync that gains nothing: launch-bound", suspect="watch_level"),
    Pair(Expected("item_late", "clean"), "a sync that gains nothing: device-bound", suspect="watch_level"),
)
