"""NVML: the real `pynvml`, with its calls into the driver replaced by a machine that stands on the table.

Signatures, error classes and constants are pynvml's own; only what the driver would answer is made.
"""

import inspect
import os
import types
from functools import partial

import pynvml
import pytest
from midwatch.sensors.base import Unavailable
from midwatch.sensors.cuda import CudaDevice
from midwatch.sensors.nvml import NvmlSensor
from midwatch.sensors.nvmlmap import map_devices

SECOND = 10**9
REAL = dict(vars(pynvml))


class Board:
    """One GPU, or a MIG instance of one; what NVML would give as a handle."""

    def __init__(self, uuid, name="NVIDIA H200", bus="00000000:1B:00.0", parent=None):
        self.uuid, self.name, self.bus, self.parent = uuid, name, bus, parent
        self.reasons = 0
        self.pids = [os.getpid()]
        self.errors = {}


class Machine:
    """Answers NVML's calls, and counts them."""

    def __init__(self, boards, parts=()):
        self.boards, self.parts = boards, list(parts)
        self.calls = []
        self.init_error = None

    def note(self, call, board=None):
        self.calls.append(call)
        code = board.errors.get(call) if board is not None else None
        if code is not None:
            raise pynvml.NVMLError(code)

    def nvmlInit(self):
        self.note("init")
        if self.init_error is not None:
            raise pynvml.NVMLError(self.init_error)

    def nvmlShutdown(self):
        self.note("shutdown")

    def nvmlSystemGetDriverVersion(self):
        return "580.65.06"

    def nvmlDeviceGetCount(self):
        return len(self.boards)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.boards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return self._only(board for board in [*self.boards, *self.parts] if board.uuid == uuid)

    def nvmlDeviceGetHandleByPciBusId(self, pciBusId):
        return self._only(board for board in self.boards if board.bus == pciBusId)

    def nvmlDeviceGetUUID(self, handle):
        return handle.uuid

    def nvmlDeviceGetName(self, handle):
        return handle.name

    def nvmlDeviceGetPciInfo(self, handle):
        return types.SimpleNamespace(busId=handle.bus)

    def nvmlDeviceIsMigDeviceHandle(self, device):
        return int(device.parent is not None)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, device):
        return device.parent

    def nvmlDeviceGetUtilizationRates(self, handle):
        self.note("utilization", handle)
        if handle.parent is not None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return types.SimpleNamespace(gpu=37, memory=12)

    def nvmlDeviceGetMemoryInfo(self, handle):
        self.note("memory", handle)
        return types.SimpleNamespace(used=8_000_000_000, total=150_000_000_000, free=142_000_000_000)

    def nvmlDeviceGetPowerUsage(self, handle):
        self.note("power", handle)
        return 123_400

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        self.note("reasons", handle)
        return handle.reasons

    def nvmlDeviceGetClockInfo(self, handle, kind):
        self.note("clock", handle)
        assert kind == pynvml.NVML_CLOCK_SM
        return 1980

    def nvmlDeviceGetTemperature(self, handle, sensor):
        self.note("temperature", handle)
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return 55

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        self.note("processes", handle)
        return [types.SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in handle.pids]

    @staticmethod
    def unknown(name, *_):
        raise AssertionError(f"{name} must not be called")

    @staticmethod
    def _only(found):
        for board in found:
            return board
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def install(self, monkeypatch):
        for name in dir(pynvml):
            if name.startswith(("nvmlDevice", "nvmlSystem")):
                monkeypatch.setattr(pynvml, name, partial(self.unknown, name))
        for name, method in inspect.getmembers(self, inspect.ismethod):
            if name.startswith("nvml"):
                # What the sensor calls here it could call there: a name that pynvml lacks, or another arity, raises.
                inspect.signature(REAL[name]).bind(*inspect.signature(method).parameters)
                monkeypatch.setattr(pynvml, name, method)


@pytest.fixture
def machine(monkeypatch):
    """Three GPUs; NVML counts them by their place on the bus."""
    boards = [
        Board("GPU-aaaa-1", bus="00000000:1B:00.0"),
        Board("GPU-bbbb-2", bus="00000000:43:00.0"),
        Board("GPU-cccc-3", bus="00000000:52:00.0"),
    ]
    machine = Machine(boards)
    machine.install(monkeypatch)
    for variable in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(variable, raising=False)
    return machine


USED = (CudaDevice(0, "NVIDIA H200", uuid="bbbb-2", memory_bytes=150_000_000_000),)


def sensor_of(clock, **settings):
    settings = {"devices": lambda: USED, "library": "libc.so.6", "drivers": ("/proc/self",)} | settings
    sensor = NvmlSensor(clock, **settings)
    sensor.start()
    return sensor


def tick(sensor, clock, seconds):
    clock.now_ns += int(seconds * SECOND)
    sensor.tick(clock.now_ns)


def test_a_reading(machine, clock, swallowed):
    machine.boards[1].reasons = 0x1 | 0x4 | 0x40
    machine.boards[1].pids = [os.getpid(), 1, 2]
    sensor = sensor_of(clock)
    tick(sensor, clock, 0)
    (sample,) = sensor.take()
    assert sample.device == 0
    assert (sample.utilization, sample.power_w, sample.memory_used_bytes) == (37.0, 123.4, 8_000_000_000)
    assert (sample.sm_clock_mhz, sample.temperature_c, sample.other_processes) == (1980, 55, 2)
    assert sample.throttle_reasons == ("sw_power_cap", "hw_thermal_slowdown")
    assert sample.unix_ns == clock.to_unix(clock.now_ns)
    assert sensor.between(clock.now_ns, clock.now_ns) == (sample,)
    assert sensor.status().state == "on"
    assert sensor.driver == "580.65.06"
    (device,) = sensor.devices
    assert (device.index, device.uuid, device.pci_bus_id) == (0, "GPU-bbbb-2", "00000000:43:00.0")
    sensor.stop()
    assert machine.calls.count("init") == machine.calls.count("shutdown") == 1
    assert not swallowed


def test_once_a_second_and_faster_only_while_something_is_urgent(machine, clock):
    urgent = []
    sensor = sensor_of(clock, hz=5.0, urgent=lambda: bool(urgent))
    assert sensor.period_s == 1.0
    for _ in range(20):
        tick(sensor, clock, 0.2)
    assert sensor.period_s == pytest.approx(0.2)
    assert len(sensor.take()) == 4
    urgent.append(1)
    for _ in range(20):
        tick(sensor, clock, 0.2)
    fast = sensor.take()
    assert len(fast) == 20
    slow = [sample for sample in fast if sample.sm_clock_mhz != -1]
    assert len(slow) == 4
    assert {sample.temperature_c for sample in fast if sample.sm_clock_mhz == -1} == {-1}
    assert all(sample.utilization == 37.0 for sample in fast)


def test_never_more_than_ten_readings_a_second(machine, clock):
    sensor = sensor_of(clock, hz=500.0)
    tick(sensor, clock, 1.0)
    assert sensor.period_s == pytest.approx(0.1)
    sensor.stop()
    assert sensor.period_s == 1.0


def test_nothing_is_asked_before_the_process_uses_cuda(machine, clock, swallowed):
    used = []
    sensor = sensor_of(clock, devices=lambda: tuple(used))
    for _ in range(5):
        tick(sensor, clock, 1)
    assert machine.calls == []
    assert (sensor.status().state, sensor.status().detail) == ("off", "The process has not used CUDA so far.")
    used += USED
    tick(sensor, clock, 1)
    assert len(sensor.take()) == 1
    assert not swallowed


def test_another_device_is_found_later(machine, clock):
    used = list(USED)
    sensor = sensor_of(clock, devices=lambda: tuple(used))
    tick(sensor, clock, 0)
    used.append(CudaDevice(2, "NVIDIA H200", uuid="cccc-3"))
    for _ in range(11):
        tick(sensor, clock, 1)
    assert {sample.device for sample in sensor.take()} == {0, 2}
    assert machine.calls.count("init") == 1


def test_a_machine_without_nvml(clock, swallowed):
    sensor = sensor_of(clock, library="libnvidia-ml-of-no-machine.so.1")
    tick(sensor, clock, 0)
    status = sensor.status()
    assert status.state == "unavailable"
    assert status.detail == "This machine has no NVML (libnvidia-ml-of-no-machine.so.1 was not found)."
    assert not swallowed


def test_where_there_is_no_driver_no_library_is_looked_for_before_cuda_is_used(machine, clock, swallowed):
    used = []
    sensor = sensor_of(clock, devices=lambda: tuple(used), drivers=("/proc/no-such-driver",))
    tick(sensor, clock, 1)
    status = sensor.status()
    assert (status.state, status.detail) == ("unavailable", "This machine has no NVML: there is no NVIDIA driver.")
    used += USED
    for _ in range(12):
        tick(sensor, clock, 1)
    assert len(sensor.take()) > 0
    assert not swallowed


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH])
def test_a_driver_that_does_not_answer(machine, clock, swallowed, code):
    machine.init_error = code
    sensor = sensor_of(clock)
    tick(sensor, clock, 0)
    assert sensor.status().state == "unavailable"
    assert sensor.status().detail.startswith("NVML cannot be used here: ")
    assert not swallowed


def test_no_descriptor_left_is_not_taken_for_a_machine_without_nvml(clock, no_descriptors, swallowed):
    sensor = sensor_of(clock, library="libno-such-thing.so.1")
    with no_descriptors():
        tick(sensor, clock, 1)
        assert "raise the limit of open files" in sensor.status().detail
    for _ in range(12):
        tick(sensor, clock, 1)
    assert "This machine has no NVML" in sensor.status().detail
    assert not swallowed


def test_a_lost_gpu_that_is_back_is_read_again(machine, clock, swallowed):
    sensor = sensor_of(clock)
    machine.boards[1].errors = {"memory": pynvml.NVML_ERROR_GPU_IS_LOST}
    for _ in range(4):
        tick(sensor, clock, 1)
    assert sensor.status().state == "failed"
    machine.boards[1].errors = {}
    for _ in range(12):
        tick(sensor, clock, 1)
    assert sensor.status().state == "on"
    assert sensor.take()[-1].utilization == 37.0
    swallowed.clear()


def test_a_process_that_nvml_does_not_list_claims_no_other_processes(machine, clock):
    machine.boards[1].pids = [1, 2, 3]
    sensor = sensor_of(clock)
    tick(sensor, clock, 0)
    (sample,) = sensor.take()
    assert sample.other_processes == -1


def test_what_a_device_does_not_give_is_not_asked_again(machine, clock, swallowed):
    machine.boards[1].errors = {
        "power": pynvml.NVML_ERROR_NOT_SUPPORTED,
        "processes": pynvml.NVML_ERROR_NO_PERMISSION,
    }
    sensor = sensor_of(clock)
    for _ in range(3):
        tick(sensor, clock, 1)
    samples = sensor.take()
    assert {(sample.power_w, sample.other_processes, sample.utilization) for sample in samples} == {(-1.0, -1, 37.0)}
    assert machine.calls.count("power") == machine.calls.count("processes") == 1
    assert not swallowed


def test_a_lost_gpu_switches_the_sensor_off(machine, clock, swallowed):
    sensor = sensor_of(clock)
    tick(sensor, clock, 1)
    machine.boards[1].errors = {"memory": pynvml.NVML_ERROR_GPU_IS_LOST}
    for _ in range(5):
        tick(sensor, clock, 1)
    assert sensor.status().state == "failed"
    assert len(swallowed) == 3
    assert "shutdown" in machine.calls


def test_no_other_call_is_made(machine, clock, swallowed):
    """Some calls take 3 to 20 ms (PCIe throughput, total energy): whatever the machine does not know, raises."""
    sensor = sensor_of(clock)
    with pytest.raises(AssertionError, match="nvmlDeviceGetPcieThroughput"):
        pynvml.nvmlDeviceGetPcieThroughput(machine.boards[0], 0)
    for _ in range(3):
        tick(sensor, clock, 1)
    assert len(sensor.take()) == 3
    assert not swallowed


def found(devices, **environ):
    return [device.part.uuid for device in map_devices(pynvml, devices, environ)]


def cuda(index, **known):
    return CudaDevice(index, known.pop("name", "NVIDIA H200"), **known)


def test_by_uuid_whatever_is_visible(machine):
    assert found((cuda(0, uuid="cccc-3"), cuda(1, uuid="aaaa-1")), CUDA_VISIBLE_DEVICES="2,0") == [
        "GPU-cccc-3",
        "GPU-aaaa-1",
    ]


def test_by_pci_id(machine):
    assert found((cuda(0, pci_bus_id="00000000:43:00.0"),)) == ["GPU-bbbb-2"]


def test_by_the_number_among_equal_devices(machine):
    assert found((cuda(0), cuda(1)), CUDA_VISIBLE_DEVICES="2,0") == ["GPU-cccc-3", "GPU-aaaa-1"]
    assert found((cuda(1),)) == ["GPU-bbbb-2"]


def test_by_a_shortened_uuid(machine):
    assert found((cuda(0),), CUDA_VISIBLE_DEVICES="GPU-bb") == ["GPU-bbbb-2"]


def test_among_different_devices_the_number_says_nothing(machine):
    """CUDA puts the fastest first."""
    machine.boards[0].name = "NVIDIA T4"
    assert found((cuda(1, name="NVIDIA T4"),)) == ["GPU-aaaa-1"]
    with pytest.raises(Unavailable, match="CUDA device 0"):
        found((cuda(0),))
    assert found((cuda(0),), CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES="1") == ["GPU-bbbb-2"]


@pytest.mark.parametrize("visible", ["", "7", "nonsense", "GPU-", "GPU-zz"])
def test_what_cannot_be_told_is_not_guessed(machine, visible):
    with pytest.raises(Unavailable):
        found((cuda(0),), CUDA_VISIBLE_DEVICES=visible)


def test_a_mig_instance_and_its_board(machine, clock, swallowed, monkeypatch):
    part = Board("MIG-dddd-4", name="NVIDIA H200 MIG 1g.18gb", bus="", parent=machine.boards[2])
    machine.parts.append(part)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-dddd-4")
    sensor = sensor_of(clock, devices=lambda: (CudaDevice(0, part.name, uuid="cccc-3"),))
    tick(sensor, clock, 0)
    tick(sensor, clock, 1)
    sample = sensor.take()[0]
    assert (sample.utilization, sample.memory_used_bytes, sample.power_w) == (-1.0, 8_000_000_000, 123.4)
    assert sensor.devices[0].uuid == "MIG-dddd-4"
    assert sensor.devices[0].pci_bus_id == machine.boards[2].bus
    assert machine.calls.count("utilization") == 1
    assert not swallowed
