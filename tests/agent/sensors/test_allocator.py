"""Counters of the device's allocator, from a torch that stands in for one with CUDA."""

import sys
import types

import pytest
import torch
from midwatch.sensors.allocator import AllocatorCounts, AllocatorSensor
from midwatch.sensors.cuda import CudaDevice, initialised, used_devices


class Tables:
    """What `_cuda_memoryStats` returns: nested tables beside plain counters, as torch 2.4 and later build it."""

    def __init__(self, devices=2):
        self.tables = [
            {
                "num_alloc_retries": 5,
                "num_ooms": 0,
                "num_sync_all_streams": 0,
                "num_device_alloc": 40,
                "num_device_free": 10,
                "max_split_size": -1,
                "allocated_bytes": {"all": {"current": 1, "peak": 2, "allocated": 3, "freed": 4}},
            }
            for _ in range(devices)
        ]

    def grow(self, device, **changes):
        for key, change in changes.items():
            self.tables[device][key] += change


@pytest.fixture
def tables(monkeypatch):
    """A torch that has initialised CUDA, with contexts on the devices 0 and 1 of three."""
    tables = Tables()
    properties = types.SimpleNamespace(
        name="NVIDIA H200", uuid="5f7c", total_memory=150_000_000_000, pci_domain_id=0, pci_bus_id=0x1B, pci_device_id=0
    )
    cuda = types.SimpleNamespace(
        is_initialized=lambda: True, device_count=lambda: 3, get_device_properties=lambda index: properties
    )
    core = types.SimpleNamespace(
        _cuda_memoryStats=lambda index: tables.tables[index], _cuda_hasPrimaryContext=lambda index: index < 2
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda, _C=core))
    return tables


def test_differences_over_the_devices_in_use(tables, swallowed):
    sensor = AllocatorSensor()
    sensor.start()
    assert sensor.take(0) == AllocatorCounts(0, 0, 0)
    tables.grow(0, num_alloc_retries=1, num_device_alloc=3)
    sensor.tick(1)
    tables.grow(1, num_device_alloc=2, num_device_free=4)
    assert sensor.take(2) == AllocatorCounts(1, 5, 4)
    assert sensor.take(3) == AllocatorCounts(0, 0, 0)
    assert not swallowed


def test_a_reset_of_the_counters_is_no_negative_difference(tables):
    sensor = AllocatorSensor()
    sensor.start()
    sensor.tick(0)
    tables.grow(0, num_device_alloc=-40)
    assert sensor.take(1) == AllocatorCounts(0, 0, 0)


def test_devices_in_use_as_torch_describes_them(tables):
    device = CudaDevice(0, "NVIDIA H200", "5f7c", "00000000:1B:00.0", 150_000_000_000)
    assert used_devices() == (device, CudaDevice(1, *[getattr(device, f) for f in device.__slots__[1:]]))


def test_a_torch_without_uuid_and_bus(tables):
    sys.modules["torch"].cuda.get_device_properties = lambda index: types.SimpleNamespace(name="A100", total_memory=1)
    assert used_devices()[0] == CudaDevice(0, "A100", "", "", 1)


def test_a_torch_that_does_not_count(tables):
    del sys.modules["torch"]._C._cuda_memoryStats
    sensor = AllocatorSensor()
    sensor.start()
    sensor.tick(0)
    assert sensor.status().state == "unavailable"


def test_the_real_torch_without_cuda_is_never_initialised(swallowed):
    sensor = AllocatorSensor()
    sensor.start()
    assert sensor.take(0) == AllocatorCounts()
    assert used_devices() == ()
    assert not torch.cuda.is_initialized()
    assert not swallowed


def test_without_torch_there_is_no_device(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    assert not initialised()
    assert used_devices() == ()
