"""Which CUDA devices this process uses, as torch knows them. Nothing here initialises CUDA or creates a context."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """One device by its CUDA number; a field that this torch does not tell is "" or 0."""

    index: int
    name: str = ""
    uuid: str = ""
    """Without the ``GPU-`` or ``MIG-`` that NVML puts in front."""
    pci_bus_id: str = ""
    memory_bytes: int = 0


def initialised() -> bool:
    """Return whether the process has initialised CUDA through torch. Costs under a microsecond."""
    torch: Any = sys.modules.get("torch")
    is_initialized = getattr(getattr(torch, "cuda", None), "is_initialized", None)
    return bool(is_initialized()) if is_initialized is not None else False


def used_indexes() -> list[int]:
    """Return the CUDA numbers of the devices on which this process has a context."""
    torch: Any = sys.modules["torch"]
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None)  # noqa: SLF001
    everyone = range(torch.cuda.device_count())
    return [index for index in everyone if has_context is None or has_context(index)]


def used_devices() -> tuple[CudaDevice, ...]:
    """Return the devices on which this process has a context; none before CUDA is initialised."""
    if not initialised():
        return ()
    torch: Any = sys.modules["torch"]
    return tuple(_describe(index, torch.cuda.get_device_properties(index)) for index in used_indexes())


def _describe(index: int, properties: Any) -> CudaDevice:
    bus = getattr(properties, "pci_bus_id", None)
    pci = ""
    if isinstance(bus, int):
        pci = f"{getattr(properties, 'pci_domain_id', 0):08X}:{bus:02X}:{getattr(properties, 'pci_device_id', 0):02X}.0"
    return CudaDevice(
        index=index,
        name=str(getattr(properties, "name", "")),
        uuid=str(getattr(properties, "uuid", "")),
        pci_bus_id=pci,
        memory_bytes=int(getattr(properties, "total_memory", 0)),
    )
