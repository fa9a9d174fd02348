"""Who is watched: this process, as far as it is known by now."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import replace
from typing import Any

from midwatch._version import __version__
from midwatch.config import Settings
from midwatch.guard import guard
from midwatch.model.resource import Device, Resource


def identify(settings: Settings, start_unix_ns: int) -> Resource:
    """Return the resource of this process, before torch is imported."""
    return Resource(
        agent_id=os.urandom(8).hex(),
        service=settings.service,
        service_version=settings.service_version,
        environment=settings.environment,
        host=platform.node(),
        pid=os.getpid(),
        start_unix_ns=start_unix_ns,
        agent_version=__version__,
        python=platform.python_version(),
    )


def with_torch(resource: Resource, *, driver: str = "", devices: tuple[Device, ...] = ()) -> Resource:
    """Return ``resource`` with what torch and NVML say of themselves; unchanged while torch is not imported."""
    torch: Any = sys.modules.get("torch")
    version = getattr(torch, "__version__", None)
    if version is None:
        return replace(resource, driver=driver or resource.driver, devices=devices or resource.devices)
    cuda = guard.call("identity.cuda", lambda: torch.version.cuda or torch.version.hip or "", default="")
    return replace(
        resource,
        torch=str(version),
        cuda=str(cuda),
        driver=driver or resource.driver,
        devices=devices or resource.devices,
    )
