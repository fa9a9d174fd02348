"""Which engine this process can use, and why the others are off: one line for each, for `status()` and `doctor`."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from midwatch.capture import session
from midwatch.capture.base import Engine
from midwatch.capture.capped import CappedEngine
from midwatch.capture.direct import DirectEngine
from midwatch.capture.environment import tear_down_is_safe, tears_down
from midwatch.capture.latch import Latch
from midwatch.capture.shim import Shim, ShimError
from midwatch.capture.torchapi import loaded_torch, missing_call, uses_device
from midwatch.capture.version import TorchVersion, installed_version, version_of
from midwatch.capture.window import WindowEngine
from midwatch.model.status import Part

SETTINGS = ("auto", "direct", "capped", "off")
OLDEST = (2, 4)
NEWEST = (2, 14)
"""The range of torch whose profiler was read and tried."""
_ALL_THREADS = (2, 7)
"""`profile_all_threads`; before it a window sees no operator of another thread."""
_SAFE_OPS_STOP = (2, 14)
"""From here on torch waits by itself for threads that are inside an operator when a session of all threads stops."""
_INJECTIONS = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
_TRIED_MACHINES = ("x86_64", "AMD64")


@dataclass(frozen=True, slots=True)
class Host:
    """What the choice depends on beside torch.

    ``setting`` is one of `SETTINGS`; naming an engine accepts what it costs for good where CUPTI cannot be torn down.
    ``allow_deep`` accepts deep windows with CUDA before torch 2.14.
    """

    setting: str = "auto"
    allow_deep: bool = False
    system: str = sys.platform
    machine: str = field(default_factory=platform.machine)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


@dataclass(frozen=True, slots=True)
class Target:
    """The torch that is to be profiled, and whether it uses a CUDA device."""

    version: TorchVersion
    device: bool


def choose_engine(
    setting: str = "auto",
    *,
    service: str = "",
    state_dir: str | None = None,
    allow_deep: bool = False,
    spacing_s: float = 1.0,
    given_up: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Engine | None, list[Part]]:
    """Return the engine for this process, or None, and a part for each engine with the reason where it is off.

    Never imports torch: before the host has imported it the engine is None, so ask again when a window is wanted.
    Installs the wrappers around the user's profiler sessions. ``state_dir`` holds the crash latch; None: no latch.
    ``given_up`` names the engines that have failed in this process, each with the reason.
    """
    session.install()
    host = Host(setting, allow_deep)
    chosen: Engine | None = None
    parts = []
    makers: tuple[type[WindowEngine], ...] = (DirectEngine, CappedEngine)
    for make in makers:
        latch = Latch(state_dir, service, _version_text(), make.name)
        engine = make(latch, partial(_reason, host, make.name, latch.verdict()), spacing_s=spacing_s)
        reason = engine.unavailable()
        name = f"engine.{engine.name}"
        if engine.name in given_up:
            parts.append(Part(name, "failed", given_up[engine.name]))
        elif reason:
            parts.append(Part(name, "off" if _switched_off(host, engine.name) else "unavailable", reason))
        elif chosen is None:
            chosen = engine
            latch.try_out()
            deep = engine.unavailable(deep=True)
            parts.append(Part(name, "on", f"light windows only: {deep}" if deep else "light and deep windows"))
        else:
            parts.append(Part(name, "off", f"stands by: the {chosen.name} engine works here"))
    return chosen, parts


def why_not(host: Host, name: str, target: Target, *, deep: bool) -> str:
    """Why the engine ``name`` is off on this host with this torch, in one sentence with the remedy, or "". Pure."""
    version, ops = target.version, deep or not target.device
    if reason := _switched_off(host, name):
        return reason
    if host.system != "linux":
        return f"windows need Linux, not {host.system}"
    if version.number < OLDEST:
        return f"torch {version.text} is older than {_dotted(OLDEST)}: upgrade torch for windows"
    if version.hip:
        return "windows on ROCm are not supported; `midwatch analyze` reads ROCm traces"
    if "KINETO_USE_DAEMON" in host.environ:
        return "KINETO_USE_DAEMON is set: Kineto belongs to another daemon, unset it for windows"
    if ops and version.number < _ALL_THREADS:
        return f"torch {version.text} cannot record operators of other threads, {_dotted(_ALL_THREADS)} can"
    if target.device and (reason := _device_reason(host, version, deep=deep)):
        return reason
    return _direct_reason(host, version) if name == "direct" and host.setting == "auto" else ""


def _switched_off(host: Host, name: str) -> str:
    if host.setting not in SETTINGS:
        return f"engine={host.setting!r} is not known: choose one of {', '.join(SETTINGS)}"
    if host.setting == "off":
        return "switched off (engine=off)"
    return "" if host.setting in ("auto", name) else f"not chosen (engine={host.setting})"


def _device_reason(host: Host, version: TorchVersion, *, deep: bool) -> str:
    for variable in _INJECTIONS:
        if host.environ.get(variable):
            return f"{variable} is set: another profiler holds CUPTI, which has room for one"
    if deep and version.number < _SAFE_OPS_STOP and not host.allow_deep:
        return f"deep windows with CUDA before torch {_dotted(_SAFE_OPS_STOP)} must be allowed (allow_deep)"
    if host.setting != "auto" or tears_down(host.environ):
        return ""
    cost = "CUPTI would stay attached after a window, which costs a launch-bound service 10 to 30 % of p50 for good"
    if tear_down_is_safe(version):
        return f"{cost}: let the agent start before the first profiler session and do not set TEARDOWN_CUPTI=0"
    return f"{cost}: torch 2.11 with CUDA 12.6 can detach it, engine=direct accepts the cost"


def _direct_reason(host: Host, version: TorchVersion) -> str:
    if version.number > NEWEST:
        return f"torch {version.text} is newer than {_dotted(NEWEST)}, the last one tried; engine=direct tries it"
    if host.machine not in _TRIED_MACHINES:
        return f"not tried on {host.machine}; engine=direct tries it"
    return ""


def _reason(host: Host, name: str, verdict: str, deep: bool) -> str:  # noqa: FBT001  # called by the engine
    torch = loaded_torch()
    if torch is None:
        text = "is not imported yet" if installed_version() else "is not installed"
        return _switched_off(host, name) or f"torch {text}"
    version = version_of(torch)
    device = uses_device(torch)
    return (
        why_not(host, name, Target(version, device), deep=deep)
        or verdict
        or (session.FORKED if session.session.forked else "")
        or session.unguarded()
        or _missing(torch, ops=deep or not device)
        or (_shim_problem(version.text) if name == "direct" else "")
    )


def _missing(torch: Any, *, ops: bool) -> str:
    name = missing_call(torch, ops=ops)
    return f"this torch lacks {name}" if name else ""


_shim_works: set[str] = set()
"""The versions of torch with which the shim was found to work. What failed is tried again: it may have been for want of
a file descriptor."""


def _shim_problem(version: str) -> str:
    if version not in _shim_works:
        try:
            Shim()
        except ShimError as error:
            return str(error)
        _shim_works.add(version)
    return ""


def _version_text() -> str:
    torch = loaded_torch()
    version = version_of(torch) if torch is not None else installed_version()
    return version.text if version is not None else "none"


def _dotted(number: tuple[int, int]) -> str:
    return f"{number[0]}.{number[1]}"
