"""Which NVML device is which CUDA device. The numbers differ: CUDA counts what it is shown, the fastest first, and
NVML counts all, by their place on the bus.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from midwatch.sensors.base import Unavailable
from midwatch.sensors.cuda import CudaDevice


class NvmlDevice(NamedTuple):
    """A CUDA device with its handles; ``board`` is the whole GPU where ``part`` is a MIG instance of it."""

    cuda: CudaDevice
    part: Any
    board: Any


def map_devices(
    nvml: Any, devices: tuple[CudaDevice, ...], environ: Mapping[str, str] | None = None
) -> tuple[NvmlDevice, ...]:
    """Return the NVML handles of CUDA devices, found by UUID, by PCI id, or by ``CUDA_VISIBLE_DEVICES``.

    Raises `Unavailable` where one cannot be told for certain: no figure is better than that of a stranger's GPU.
    """
    environ = os.environ if environ is None else environ
    mapped = []
    for device in devices:
        part = _by_mig_token(nvml, device, environ) or _by_identity(nvml, device) or _by_token(nvml, device, environ)
        if part is None:
            raise Unavailable(f"NVML does not say which of its GPUs is CUDA device {device.index}.")
        mapped.append(NvmlDevice(device, part, _board(nvml, part)))
    return tuple(mapped)


def _by_mig_token(nvml: Any, device: CudaDevice, environ: Mapping[str, str]) -> Any:
    """Return the MIG instance that ``CUDA_VISIBLE_DEVICES`` names; CUDA may show the UUID of the whole GPU for it."""
    token = _token(device, environ)
    return _quiet(nvml, nvml.nvmlDeviceGetHandleByUUID, token) if token.startswith("MIG-") else None


def _by_identity(nvml: Any, device: CudaDevice) -> Any:
    for prefix in ("GPU-", "MIG-") if device.uuid else ():
        handle = _quiet(nvml, nvml.nvmlDeviceGetHandleByUUID, prefix + device.uuid)
        if handle is not None:
            return handle
    return _quiet(nvml, nvml.nvmlDeviceGetHandleByPciBusId, device.pci_bus_id) if device.pci_bus_id else None


def _by_token(nvml: Any, device: CudaDevice, environ: Mapping[str, str]) -> Any:
    """Return the device that ``CUDA_VISIBLE_DEVICES`` names for this CUDA number, for torch versions without a UUID."""
    token = _token(device, environ)
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    if token.startswith("GPU-"):
        named = [handle for handle in handles if _uuid(nvml, handle).startswith(token)]
        return named[0] if len(named) == 1 else None
    if not token.isdigit():
        return None
    alike = [handle for handle in handles if _matches(nvml, handle, device)]
    if len(alike) == len(handles) or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        # Among equal devices the fastest first is the order on the bus, which is NVML's.
        return handles[int(token)] if int(token) < len(handles) else None
    return alike[0] if len(alike) == 1 else None


def _token(device: CudaDevice, environ: Mapping[str, str]) -> str:
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(device.index)
    tokens = [token.strip() for token in visible.split(",")]
    return tokens[device.index] if device.index < len(tokens) else ""


def _matches(nvml: Any, handle: Any, device: CudaDevice) -> bool:
    name = nvml.nvmlDeviceGetName(handle)
    return bool((name.decode() if isinstance(name, bytes) else name) == device.name)


def _uuid(nvml: Any, handle: Any) -> str:
    uuid = nvml.nvmlDeviceGetUUID(handle)
    return uuid.decode() if isinstance(uuid, bytes) else str(uuid)


def _board(nvml: Any, handle: Any) -> Any:
    try:
        if nvml.nvmlDeviceIsMigDeviceHandle(handle):
            return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    except (nvml.NVMLError, AttributeError):  # a driver, or a pynvml, from before MIG
        return handle
    return handle


def _quiet(nvml: Any, find: Any, name: str) -> Any:
    """Return what ``find`` gives for ``name``, None where NVML does not know it."""
    try:
        return find(name)
    except nvml.NVMLError:
        return None
