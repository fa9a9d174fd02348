"""The devices that the process uses, through NVML: utilisation, memory, power, clocks, temperature, throttling.

What costs 20 ms a call (`nvmlDeviceGetPcieThroughput`) or 3 ms (the total energy) is never asked.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from midwatch import forks
from midwatch.clock import Clock
from midwatch.model.resource import Device
from midwatch.model.samples import GpuSample
from midwatch.model.status import Part
from midwatch.sensors.base import Sensor, Unavailable
from midwatch.sensors.cuda import CudaDevice, used_devices
from midwatch.sensors.nvmlmap import NvmlDevice, map_devices
from midwatch.sensors.readings import Readings
from midwatch.shortage import no_descriptor_left

_MAX_KEPT = 600
_SLOW_NS = 1_000_000_000
_DRIVERS = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")
"""One of these is there where a driver is. To look for a library that is not there holds the GIL for ten milliseconds,
each time.
"""
_MAP_NS = 10_000_000_000
"""How often to ask whether the process uses another device by now."""
_REASONS = (
    (0x2, "applications_clocks"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake"),
    (0x100, "display_clock"),
)
"""Bits of the clocks' event reasons. 0x1 is an idle device, whose clock nothing holds down."""


class NvmlSensor(Sensor):
    """Reads NVML once the process uses CUDA: every second, and at ``hz`` while something is urgent.

    Args:
        clock: the time.
        hz: readings a second while ``urgent()``; 10 at most.
        urgent: whether a request is overdue now.
        devices: the CUDA devices that the process uses; none before it has initialised CUDA.
        library: the file that NVML comes in.
        drivers: files of which one is there where a driver is.
    """

    name = "nvml"

    def __init__(
        self,
        clock: Clock,
        *,
        hz: float = 5.0,
        urgent: Callable[[], bool] = lambda: False,
        devices: Callable[[], tuple[CudaDevice, ...]] = used_devices,
        library: str = "libnvidia-ml.so.1",
        drivers: Sequence[str] = _DRIVERS,
    ) -> None:
        super().__init__()
        self._fast_s = 1.0 / min(hz, 10.0)
        self.period_s = _SLOW_NS / 1e9
        self._clock = clock
        self._urgent = urgent
        self._find_devices = devices
        self._library = library
        self._drivers = drivers
        self._library_seen = False
        self._nvml: Any = None
        self._found: tuple[CudaDevice, ...] = ()
        self._mapped: tuple[NvmlDevice, ...] = ()
        self._next_map_ns = self._next_ns = self._next_slow_ns = 0
        self._refused: set[tuple[int, str]] = set()
        self._readings: Readings[GpuSample] = Readings(_MAX_KEPT)
        self.driver = ""
        """The driver's version, "" until NVML has been asked."""
        self.devices: tuple[Device, ...] = ()
        """The devices that are read."""

    def between(self, start_ns: int, end_ns: int) -> tuple[GpuSample, ...]:
        """Return the readings taken in a time (`Clock.perf_ns`), the oldest first."""
        return self._readings.between(start_ns, end_ns)

    def take(self) -> list[GpuSample]:
        """Take out the readings that are new since the last call."""
        return self._readings.take()

    def status(self) -> Part:
        """Return the state; not needed, so off, as long as the process does not use CUDA."""
        if self._state == "on" and not self._mapped:
            return Part(self.name, "off", "The process has not used CUDA so far.")
        return super().status()

    def _look(self, now_ns: int) -> None:
        if not self._library_seen:
            if not self._find_devices() and not any(map(os.path.exists, self._drivers)):
                raise Unavailable("This machine has no NVML: there is no NVIDIA driver.")
            _look_for(self._library)
            self._library_seen = True
        if now_ns >= self._next_map_ns:
            self._next_map_ns = now_ns + (_MAP_NS if self._mapped else _SLOW_NS)
            self._map()
        slow = now_ns >= self._next_slow_ns
        if not self._mapped or not (slow or (now_ns >= self._next_ns and self._urgent())):
            return
        self._next_ns = now_ns + int(self._fast_s * 0.9e9)
        if slow:
            self._next_slow_ns = now_ns + _SLOW_NS
        for device in self._mapped:
            self._readings.add(now_ns, now_ns, self._read(device, now_ns, slow=slow))

    def _map(self) -> None:
        found = self._find_devices()
        if found == self._found:
            return
        if self._nvml is None:
            self._nvml = _load()
            self.driver = _text(self._nvml.nvmlSystemGetDriverVersion())
        self._mapped = map_devices(self._nvml, found)
        self._found = found
        self.period_s = self._fast_s  # not before there is something to read: each tick costs a wake
        self.devices = tuple(self._describe(device) for device in self._mapped)

    def _describe(self, device: NvmlDevice) -> Device:
        nvml, cuda = self._nvml, device.cuda
        return Device(
            index=cuda.index,
            name=cuda.name or _text(nvml.nvmlDeviceGetName(device.part)),
            uuid=_text(nvml.nvmlDeviceGetUUID(device.part)),
            pci_bus_id=_text(nvml.nvmlDeviceGetPciInfo(device.board).busId),
            memory_bytes=cuda.memory_bytes,
        )

    def _read(self, device: NvmlDevice, now_ns: int, *, slow: bool) -> GpuSample:
        nvml, index = self._nvml, device.cuda.index

        def ask(what: str, question: Callable[[], Any]) -> Any:
            return self._ask(index, what, question)

        usage = ask("utilization", lambda: nvml.nvmlDeviceGetUtilizationRates(device.part).gpu)
        memory = ask("memory", lambda: nvml.nvmlDeviceGetMemoryInfo(device.part).used)
        power = ask("power", lambda: nvml.nvmlDeviceGetPowerUsage(device.board))
        reasons = ask("reasons", lambda: _event_reasons(nvml, device.board))
        clock = temperature = others = None
        if slow:
            clock = ask("clock", lambda: nvml.nvmlDeviceGetClockInfo(device.board, nvml.NVML_CLOCK_SM))
            temperature = ask(
                "temperature", lambda: nvml.nvmlDeviceGetTemperature(device.board, nvml.NVML_TEMPERATURE_GPU)
            )
            others = ask("processes", lambda: _others(nvml.nvmlDeviceGetComputeRunningProcesses(device.part)))
        return GpuSample(
            unix_ns=self._clock.to_unix(now_ns),
            device=index,
            utilization=-1.0 if usage is None else float(usage),
            memory_used_bytes=-1 if memory is None else int(memory),
            power_w=-1.0 if power is None else power / 1000,
            sm_clock_mhz=-1 if clock is None else int(clock),
            temperature_c=-1 if temperature is None else int(temperature),
            throttle_reasons=tuple(name for bit, name in _REASONS if (reasons or 0) & bit),
            other_processes=-1 if others is None else others,
        )

    def _ask(self, index: int, what: str, question: Callable[[], Any]) -> Any:
        """Return the answer, None where this device does not give it; it is then not asked again."""
        if (index, what) in self._refused:
            return None
        nvml = self._nvml
        try:
            return question()
        except nvml.NVMLError as error:
            if error.value not in (
                nvml.NVML_ERROR_NOT_SUPPORTED,
                nvml.NVML_ERROR_NO_PERMISSION,
                nvml.NVML_ERROR_INVALID_ARGUMENT,
                nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            ):
                raise
            self._refused.add((index, what))
            return None

    def _close(self) -> None:
        nvml, self._nvml = self._nvml, None
        self._mapped, self._found, self._next_map_ns, self.period_s = (), (), 0, _SLOW_NS / 1e9
        if nvml is not None:
            nvml.nvmlShutdown()


def _look_for(library: str) -> None:
    """Raise `Unavailable` where NVML's library is not on this machine. Opening it asks no driver anything."""
    with forks.held_off():
        import ctypes

    try:
        ctypes.CDLL(library)
    except OSError as error:
        if no_descriptor_left(error):
            raise
        raise Unavailable(f"This machine has no NVML ({library} was not found).") from error


def _load() -> Any:
    try:
        with forks.held_off():
            nvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise Unavailable("The package nvidia-ml-py is not installed.") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise Unavailable(f"NVML cannot be used here: {error}.") from error
    return nvml


def _event_reasons(nvml: Any, handle: Any) -> int:
    ask = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    if ask is None:
        ask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    return int(ask(handle))


def _others(processes: list[Any]) -> int | None:
    """Return how many other processes compute on the device, None where our own is not seen (in a container)."""
    pids = {process.pid for process in processes}
    return len(pids) - 1 if os.getpid() in pids else None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
