"""The compiled shim through ctypes: Kineto's stop and save without the GIL, and the signal mark of the crash marker.

ctypes releases the GIL around a foreign call, so requests run on while Kineto stops and writes. What the shim needs of
torch it gets as addresses of the symbols that `libtorch_cpu.so` exports.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from midwatch.capture.libraries import RESIDENT, opened

_DISABLE = "_ZN5torch8autograd8profiler15disableProfilerEv"
_SAVE = "_ZN5torch8autograd8profiler14ProfilerResult4saveERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_DESTROY = "_ZN5torch8autograd8profiler14ProfilerResultD1Ev"
_TEXT_BYTES = 512


class ShimError(Exception):
    """The shim cannot be used, or a C++ exception was thrown behind it; the text is one sentence for people."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A result of Kineto's that waits to be saved and must be freed. ``start_ns`` is 0 where it is empty."""

    pointer: int
    start_ns: int

    @property
    def empty(self) -> bool:
        """Whether there is nothing to save; saving an empty result would segfault."""
        return self.pointer == 0 or self.start_ns == 0


def shim_path() -> Path:
    """Where the compiled shim lies, whether it was built or not."""
    return Path(__file__).with_name("_shim.so")


def load_library() -> ctypes.CDLL:
    """Load the compiled shim alone, without torch. Raises `ShimError`."""
    path = shim_path()
    if not path.exists():
        raise ShimError("the C++ shim is not built: run `python -m midwatch.capture.build` where a C++ compiler is")
    try:
        library = opened(str(path))
    except OSError as error:
        raise ShimError(f"the C++ shim does not load here ({error}): build it again on this machine") from error
    library.midwatch_arm.argtypes = [ctypes.c_void_p]
    library.midwatch_arm.restype = None
    library.midwatch_disarm.restype = None
    return library


class Shim:
    """Stop, save and free for the torch that this process has loaded. Raises `ShimError` where a symbol is missing."""

    def __init__(self) -> None:
        self.library = load_library()
        torch_library = _loaded_torch()
        self._disable = _address(torch_library, _DISABLE)
        self._save = _address(torch_library, _SAVE)
        self._destroy = _address(torch_library, _DESTROY)

    def stop(self) -> Stopped:
        """End this thread's session. Raises `ShimError` with the text of a C++ exception."""
        pointer = ctypes.c_void_p()
        start_ns = ctypes.c_uint64()
        self._call("midwatch_stop", self._disable, ctypes.byref(pointer), ctypes.byref(start_ns))
        return Stopped(pointer.value or 0, start_ns.value)

    def save(self, stopped: Stopped, path: str) -> None:
        """Write the trace to ``path``. Raises `ShimError`."""
        if stopped.empty:
            raise ShimError("an empty profiler result cannot be saved")
        self._call("midwatch_save", self._save, ctypes.c_void_p(stopped.pointer), ctypes.c_char_p(os.fsencode(path)))

    def free(self, stopped: Stopped) -> None:
        """Give the result's memory back. It must not be used again."""
        if stopped.pointer:
            self._call("midwatch_free", self._destroy, ctypes.c_void_p(stopped.pointer))

    def _call(self, name: str, *arguments: object) -> None:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        failed = getattr(self.library, name)(*arguments, text, ctypes.c_size_t(_TEXT_BYTES))
        if failed:
            raise ShimError(text.value.decode(errors="replace").strip().split("\n")[0])


def _loaded_torch() -> ctypes.CDLL:
    try:
        return opened("libtorch_cpu.so", RESIDENT)
    except OSError as error:
        raise ShimError("libtorch_cpu.so is not loaded in this process") from error


def _address(library: ctypes.CDLL, symbol: str) -> ctypes.c_void_p:
    try:
        return ctypes.cast(getattr(library, symbol), ctypes.c_void_p)
    except AttributeError:
        raise ShimError(
            f"this torch does not export {symbol[:60]}… (an older C++ string ABI, or another build)"
        ) from None
