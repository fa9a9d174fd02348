"""What `midwatch doctor` looks at: one check each, one line each, with the reason where something is off."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from midwatch.config import Settings, load, state_dir
from midwatch.model.status import AgentView, Part

Check = Callable[[Settings, str], Iterable[Part]]
_WITHOUT = frozenset({"isal"})
"""Packages that something is only better with."""
_OLDEST, _NEWEST = (3, 10), (3, 13)


def examine(collector: str, *, named: bool = False) -> list[Part]:
    """Run all checks against this machine and the collector at ``collector``. A check that breaks is a failed part.

    So is what must work: what Midwatch needs to be installed, folders that it writes to, and a collector that was
    ``named`` and not only looked for where one usually is.
    """
    loaded = load()
    parts = [Part("settings", "failed", problem) for problem in loaded.problems]
    for check in (_python, _torch, _engines, _shim, _nvml, _packages, _collector, _state, _traces):
        found = _guarded(check, loaded.settings, collector)
        parts += [replace(part, state="failed") if named and _unreached(part) else part for part in found]
    return parts


def _unreached(part: Part) -> bool:
    return part.name == "collector" and part.state == "unavailable"


def _guarded(check: Check, settings: Settings, collector: str) -> list[Part]:
    try:
        return list(check(settings, collector))
    except Exception as error:
        return [Part(check.__name__.strip("_"), "failed", f"{type(error).__name__}: {error}")]


def _python(_settings: Settings, _collector: str) -> Iterable[Part]:
    text = f"{platform.python_version()} at {sys.executable}"
    if _OLDEST <= sys.version_info[:2] <= _NEWEST:
        yield Part("python", "on", text)
    else:
        yield Part("python", "unavailable", f"{text}; Midwatch is tried on 3.10 to 3.13")


def _torch(_settings: Settings, _collector: str) -> Iterable[Part]:
    if find_spec("torch") is None:
        yield Part("torch", "unavailable", "not installed in this Python; run doctor with the service's")
        return
    torch = _imported_torch()
    if torch.cuda.is_available():
        torch.cuda.init()  # the engines are chosen for a process that uses the device
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        yield Part("torch", "on", f"{torch.__version__}, CUDA {torch.version.cuda}: {', '.join(names)}")
    else:
        yield Part("torch", "on", f"{torch.__version__}, no CUDA device: windows record CPU operators")


def _imported_torch() -> Any:
    from midwatch.capture.environment import prepare_environment

    prepare_environment()  # as the agent does, before torch reads it

    import torch

    return torch


def _engines(settings: Settings, _collector: str) -> Iterable[Part]:
    from midwatch.capture.select import choose_engine

    # No state folder: this process must not take part in the crash latch of the service's.
    yield from choose_engine(settings.engine)[1]


def _shim(_settings: Settings, _collector: str) -> Iterable[Part]:
    from midwatch.capture.shim import ShimError, load_library, shim_path

    try:
        load_library()
    except ShimError as error:
        yield Part("shim", "unavailable", str(error))
    else:
        yield Part("shim", "on", str(shim_path()))


def _nvml(_settings: Settings, _collector: str) -> Iterable[Part]:
    if find_spec("pynvml") is None:
        yield Part("nvml", "unavailable", "nvidia-ml-py is not installed: pip install nvidia-ml-py")
        return
    import pynvml

    try:
        pynvml.nvmlInit()
        count, driver = pynvml.nvmlDeviceGetCount(), pynvml.nvmlSystemGetDriverVersion()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        yield Part("nvml", "unavailable", f"{error}: no readings of the GPU")
    else:
        yield Part("nvml", "on", f"driver {driver}, {count} device{'' if count == 1 else 's'}")


def _packages(_settings: Settings, _collector: str) -> Iterable[Part]:
    for name, module, loses in (
        ("grpcio", "grpc", "the companion cannot send"),
        ("protobuf", "google.protobuf", "the companion cannot send"),
        ("numpy", "numpy", "traces cannot be read"),
        ("msgspec", "msgspec", "traces cannot be read"),
        ("isal", "isal", "traces are read more slowly"),
    ):
        found = next((distribution.version for distribution in distributions(name=name)), "")
        state = "unavailable" if name in _WITHOUT else "failed"
        if not found:
            yield Part(name, state, f"not installed: {loses}; pip install {name}")
        elif broken := _broken(module):
            again = f"pip install --force-reinstall {name}"
            yield Part(name, state, f"{found} does not import ({broken}): {loses}; {again}")
        else:
            yield Part(name, "on", found)


def _broken(module: str) -> str:
    """Return why ``module`` cannot be imported, "" where it can."""
    try:
        import_module(module)
    except Exception as error:  # whatever a broken package raises
        return str(error) or type(error).__name__
    return ""


def _collector(_settings: Settings, collector: str) -> Iterable[Part]:
    if _broken("grpc"):
        yield Part("collector", "unavailable", "cannot be asked without grpcio")
        return
    from midwatch_client.api import Client
    from midwatch_client.errors import CollectorError

    try:
        with Client(collector, timeout_s=3.0) as client:
            attached = client.agents(connected_only=True)
    except CollectorError as error:
        yield Part("collector", "unavailable", str(error))
    else:
        count = len(attached)
        yield Part("collector", "on", f"{collector}, {count} agent{'' if count == 1 else 's'} connected")
        yield from _agents_here(attached)


def _agents_here(attached: Iterable[AgentView]) -> Iterable[Part]:
    """What is off in the services of this machine, as far as the collector knows."""
    from midwatch_client.commands.agents import complaints

    for view in attached:
        if view.resource.host == platform.node() and view.status is not None:
            state = "failed" if view.status.state == "degraded" else "on"
            name = f"agent {view.resource.service}, pid {view.resource.pid}"
            yield Part(name, state, "; ".join(said.rstrip(".") for said in complaints(view.status)) or "connected")


def _state(settings: Settings, _collector: str) -> Iterable[Part]:
    folder = state_dir(settings)
    try:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        # Not by asking for permissions: root has them everywhere, also where nothing can be written.
        Path(tempfile.mkdtemp(prefix="midwatch-doctor-", dir=existing)).rmdir()
    except OSError as error:
        lost = f"{folder} cannot be written ({error.strerror}): no spool, no crash latch; set MIDWATCH_STATE_DIR"
        yield Part("state folder", "failed", lost)
    else:
        yield Part("state folder", "on", str(folder))


def _traces(settings: Settings, _collector: str) -> Iterable[Part]:
    from midwatch.link.tracedir import ROOM_BYTES, bases
    from midwatch_server.diagnosis.words import size

    for folder in bases(settings.trace_dir):
        if folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ROOM_BYTES:
            yield Part("trace folder", "on", f"{folder}, {size(shutil.disk_usage(folder).free)} free")
            return
    tried = " and ".join(str(folder) for folder in bases(settings.trace_dir))
    yield Part("trace folder", "failed", f"{tried}: no room or not writable; set MIDWATCH_TRACE_DIR")
