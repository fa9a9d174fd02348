"""Samples and small events that the sensors give (tiers 0 and 1)."""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.site import Frame


@dataclass(frozen=True, slots=True)
class StackSample:
    """One look at one thread's stack.

    ``weight_ns`` is the time since the sample before it of that thread: C code that holds the GIL lets through
    exactly one sample, which then stands for the whole call. ``late_ns`` is how much later than planned the tick
    came, itself a sign that the GIL was held.
    ``role`` is ``request`` (the overdue request's own thread), ``unit`` (a thread that runs units), ``other``.
    """

    unix_ns: int
    thread_id: int
    thread_ident: int
    thread_name: str
    role: str
    frames: tuple[Frame, ...]
    weight_ns: int
    late_ns: int = 0
    request_id: int = 0
    ran_ns: int = 0
    """Of a late look: for how long, at least, this thread alone ran meanwhile; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class GcPause:
    """One garbage collection, seen through `gc.callbacks` on the thread that ran it."""

    start_unix_ns: int
    duration_ns: int
    generation: int
    collected: int
    thread_id: int
    thread_ident: int
    explicit: bool
    """True where the innermost frame was calling ``gc.collect``."""
    frames: tuple[Frame, ...] = ()
    objects: int = 0
    """Objects tracked by the collected generations when it began, 0 where unknown."""


@dataclass(frozen=True, slots=True)
class LockWait:
    """A thread seen waiting for a lock; the holder's frames are empty where the holder is not known."""

    unix_ns: int
    duration_ns: int
    thread_id: int
    waiter: tuple[Frame, ...]
    lock: str
    """The kind of lock and the name it goes by in the code (``Lock RANKS_LOCK``), never a value."""
    holder_thread_id: int = 0
    holder_thread_name: str = ""
    holder: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileEvent:
    """One compilation on the request path (Dynamo, autotuning, recording of a CUDA graph)."""

    start_unix_ns: int
    duration_ns: int
    trigger: str
    compile_id: str = ""
    thread_id: int = 0
    frames: tuple[Frame, ...] = ()
    """The stack that called what was compiled, innermost first; empty where the compiler works for nobody's call."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One NVML reading; a field that the device does not give is -1."""

    unix_ns: int
    device: int
    utilization: float = -1.0
    memory_used_bytes: int = -1
    power_w: float = -1.0
    sm_clock_mhz: int = -1
    temperature_c: int = -1
    throttle_reasons: tuple[str, ...] = ()
    other_processes: int = -1


@dataclass(frozen=True, slots=True)
class HostSample:
    """One reading of the process and its host. Counters are differences since the reading before."""

    unix_ns: int
    interval_ns: int
    cpu_ns: int = 0
    rss_bytes: int = 0
    threads: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    major_faults: int = 0
    throttled_ns: int = 0
    """Time for which the cgroup was throttled."""
    cpu_quota: float = 0.0
    """Cores that the cgroup allows, 0 where unlimited."""
    alloc_retries: int = 0
    device_allocs: int = 0
    device_frees: int = 0
