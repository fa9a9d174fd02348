"""What the sensors read on this machine's GPU, and what a reading costs.

    python tests/benchmarks/sensors_device.py

Needs torch with CUDA and nvidia-ml-py; without a GPU it prints what the sensors say of that, and the costs of the rest.
Ends with 1 where a reading contradicts what torch says of the same device.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agent"))

from midwatch.clock import SystemClock
from midwatch.sensors.allocator import AllocatorSensor
from midwatch.sensors.cuda import used_devices
from midwatch.sensors.gc import GcSensor
from midwatch.sensors.nvml import NvmlSensor
from midwatch.sensors.process import ProcessSensor
from midwatch.watch.stacks import Stacks

SECOND = 10**9


def cost(label: str, work: Callable[[int], object], rounds: int = 50, step_ns: int = SECOND) -> None:
    """Print wall and CPU time of ``work(now_ns)``, in microseconds."""
    wall, cpu = [], []
    now_ns = time.perf_counter_ns()
    for _ in range(rounds):
        now_ns += step_ns
        began, began_cpu = time.perf_counter_ns(), time.thread_time_ns()
        work(now_ns)
        cpu.append((time.thread_time_ns() - began_cpu) / 1000)
        wall.append((time.perf_counter_ns() - began) / 1000)
    print(
        f"{label:34} wall {statistics.median(wall):8.1f} us (max {max(wall):9.1f})   CPU {statistics.median(cpu):8.1f}"
    )


def nvml(torch: Any, clock: SystemClock) -> list[str]:
    """Read under load; return what is wrong."""
    sensor = NvmlSensor(clock, hz=10.0, urgent=lambda: True)
    sensor.start()
    began = time.perf_counter()
    sensor.tick(clock.perf_ns())
    print(f"first tick, with init and mapping: {(time.perf_counter() - began) * 1000:.1f} ms; {sensor.status()}")
    print("torch:", *used_devices(), sep="\n  ")
    print(f"driver {sensor.driver}; NVML:", *sensor.devices, sep="\n  ")
    if not sensor.devices:
        return [] if not torch.cuda.is_available() else ["there is a GPU, but the sensor reads none"]
    x = torch.randn(8192, 8192, device="cuda")
    held = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        for _ in range(20):
            x @ x
        torch.cuda.synchronize()
        sensor.tick(clock.perf_ns())
    samples = sensor.take()
    print("readings under load:", *samples[-3:], sep="\n  ")
    slow = [sample for sample in samples if sample.sm_clock_mhz >= 0]
    cost("NVML tick, all fields", sensor.tick)
    cost("NVML tick, the fast fields", sensor.tick, step_ns=150_000_000)
    problems = []
    if max(sample.utilization for sample in samples) < 50:
        problems.append("the GPU was busy and its utilisation stayed under 50 %")
    if max(sample.memory_used_bytes for sample in samples) < held.numel():
        problems.append("less memory in use than this process alone has allocated")
    if not slow or max(sample.temperature_c for sample in slow) <= 0:
        problems.append("no clock or no temperature")
    free, total = torch.cuda.mem_get_info()
    print(f"memory: NVML {samples[-1].memory_used_bytes / 1e9:.2f} GB used, CUDA {(total - free) / 1e9:.2f} GB")
    print(
        f"other processes: {slow[-1].other_processes if slow else -1} (-1: our own is not among those that NVML lists)"
    )
    sensor.stop()
    return problems


def allocator(torch: Any) -> list[str]:
    """Force device allocations and see that they are counted; return what is wrong."""
    sensor = AllocatorSensor()
    sensor.start()
    sensor.tick(0)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        blocks = [torch.empty(64 << 20, device="cuda") for _ in range(4)]
        del blocks
        torch.cuda.empty_cache()
    sensor.tick(1)
    counts = sensor.take()
    print(f"allocator after four large blocks and two empty_cache(): {counts}; {sensor.status()}")
    cost("allocator tick", sensor.tick)
    if torch.cuda.is_available() and (counts.device_allocs < 4 or counts.device_frees < 4):
        return ["device allocations were not counted"]
    return []


def host(clock: SystemClock) -> None:
    """The process sensor, and what the collector's callback adds to a collection."""
    process = ProcessSensor(clock)
    process.start()
    cost("process tick", process.tick)
    print("  ", process.take()[-1])
    cost("gc.collect(0), bare", lambda _now: gc.collect(0), rounds=2000)
    sensor = GcSensor(Stacks(), clock)
    sensor.start()
    cost("gc.collect(0), with the sensor", lambda _now: gc.collect(0), rounds=2000)
    sensor.stop()


def main() -> int:
    """Print everything; return the exit code."""
    import torch

    clock = SystemClock()
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}")
    if torch.cuda.is_available():
        torch.ones(1, device="cuda")
    problems = nvml(torch, clock) + allocator(torch)
    host(clock)
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
