"""What the engines need of the host's torch, looked up when it is already imported; torch is never imported here."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from midwatch.capture.libraries import RESIDENT, opened

_LOG_ERRORS = 2


@dataclass(frozen=True, slots=True)
class Mode:
    """What one window records: ``device`` the runtime and GPU activities, ``ops`` operators of all threads."""

    device: bool
    ops: bool
    shapes: bool


def loaded_torch() -> Any | None:
    """The host's torch, or None while it is not (fully) imported."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "autograd") or "torch.autograd.profiler" not in sys.modules:
        return None
    return torch


def uses_device(torch: Any) -> bool:
    """Whether the process has initialised CUDA. Never initialises it (`is_available` would, and would break forks)."""
    try:
        return bool(torch.cuda.is_initialized())
    except Exception:
        return False


def mode_for(torch: Any, *, deep: bool) -> Mode:
    """Light windows record the device, or operators where there is none; deep ones add operators and shapes."""
    device = uses_device(torch)
    return Mode(device=device, ops=deep or not device, shapes=deep)


class ProfilerCalls:
    """The low-level calls of one window's mode. Raises `AttributeError` or `TypeError` where torch lacks one."""

    def __init__(self, torch: Any, mode: Mode) -> None:
        native, kinds = torch._C._autograd, torch._C._profiler.ProfilerActivity
        self._native = native
        self._cpu = {kinds.CPU}
        self._activities = ({kinds.CUDA} if mode.device else set()) | ({kinds.CPU} if mode.ops else set())
        self._config = _config(torch._C._profiler, mode)

    def prepare(self) -> None:
        """Attach and start buffering (the warm-up)."""
        self._native._prepare_profiler(self._config, self._activities)

    def enable(self) -> None:
        """Start recording. Python's own flag `_is_profiler_enabled` is left alone: it is the user's."""
        self._native._enable_profiler(self._config, self._activities)

    def mute_ops(self) -> None:
        """Take the operator callbacks out of all threads. Without CUDA in the set no device is synchronised."""
        with _quiet_log():  # it warns each time that CPU alone is toggled, which is what is meant
            self._native._toggle_collection_dynamic(False, self._cpu)

    def disable(self) -> Any:
        """Stop under the GIL; returns the result, which has ``save`` and ``trace_start_ns``."""
        return self._native._disable_profiler()


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Hold back torch's C++ warnings for the millisecond of a block, where its log level can be reached."""
    try:
        library = opened("libc10.so", RESIDENT)
        level = ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    except (OSError, ValueError):
        yield
        return
    before = level.value
    level.value = max(before, _LOG_ERRORS)
    try:
        yield
    finally:
        level.value = before


def missing_call(torch: Any, *, ops: bool) -> str:
    """The first thing that this torch lacks for a window, or ""."""
    native = getattr(getattr(torch, "_C", None), "_autograd", None)
    wanted = ["_prepare_profiler", "_enable_profiler", "_disable_profiler"]
    for name in [*wanted, "_toggle_collection_dynamic"] if ops else wanted:
        if not hasattr(native, name):
            return f"torch.{name}"
    return ""


def _config(profiler: Any, mode: Mode) -> Any:
    options: dict[str, bool] = {}
    if mode.device:
        # Without sync events CUDA-only sessions throw at stop (an assertion in Kineto's collection.cpp).
        options["enable_cuda_sync_events"] = True
    if mode.ops:
        options["profile_all_threads"] = True
    experimental = profiler._ExperimentalConfig(**options)
    arguments = (profiler.ProfilerState.KINETO, mode.shapes, False, False, False, False, experimental)
    try:
        return profiler.ProfilerConfig(*arguments, "")
    except TypeError:  # torch before 2.6 knows no trace id
        return profiler.ProfilerConfig(*arguments)
