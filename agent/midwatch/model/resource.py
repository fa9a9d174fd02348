"""Who is watched: the service process and its devices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator that the service process uses; ``uuid`` is NVML's and CUDA's common name for it."""

    index: int
    name: str = ""
    uuid: str = ""
    pci_bus_id: str = ""
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Resource:
    """The service process. ``agent_id`` is new for every process; names follow OpenTelemetry's resource."""

    agent_id: str
    service: str
    service_version: str = ""
    environment: str = ""
    host: str = ""
    pid: int = 0
    start_unix_ns: int = 0
    agent_version: str = ""
    python: str = ""
    torch: str = ""
    cuda: str = ""
    driver: str = ""
    devices: tuple[Device, ...] = ()
