"""The crash latch: an engine under which this service has crashed stays off when the service comes back.

While a window is open, a marker file of 64 bytes lies in the state directory. It is mapped into memory, so that a
change of phase is one byte stored, and what was stored survives the death of the process. Two things tell a crash from
an ordinary end:

* The shim's signal handlers are armed while the marker lies. A fatal signal stores its number in the marker and is
  passed on to the host's own handler. **One marker with a signal puts the engine off.**
* A process killed by SIGKILL (an operator, the OOM killer) can store nothing. Its marker counts only if it died in
  ``open``, ``stop`` or ``save``, which take milliseconds: hanging there is what gets a process killed, chance is
  seldom. **Two such markers put the engine off**; one alone, or a kill in the middle of a recording, does not.

A marker belongs to a living process as long as its ``flock`` is held: that works across containers and reused process
ids. Markers are kept by service, torch version and engine, so an upgrade of torch starts afresh.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import logging
import mmap
import os
import re
import secrets
import signal
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

from midwatch.capture.shim import ShimError, load_library
from midwatch.guard import guard
from midwatch.shortage import remedy

logger = logging.getLogger("midwatch")

T = TypeVar("T")

_BYTES = 64
_MAGIC = b"MWL1"
_PHASE_AT, _SIGNAL_AT = 4, 5
_STRIKES = 2


class Phase(IntEnum):
    """What the engine is doing; the value is what lies in the marker."""

    NONE = 0
    OPEN = 1
    RECORDING = 2
    STOP = 3
    SAVE = 4
    SETTLE = 5


_SHORT = (Phase.OPEN, Phase.STOP, Phase.SAVE)


@dataclass(frozen=True, slots=True)
class Remains:
    """What the marker of a dead process says."""

    path: Path
    phase: Phase
    signal: int

    @property
    def strike(self) -> bool:
        """Whether it hints at a crash without proving one."""
        return self.signal == 0 and self.phase in _SHORT


class Latch:
    """The marker of one engine in this process, and the verdict over those of processes before it.

    Without a state directory it does nothing. A disk that cannot be written costs the latch, never the window:
    `problem` says so.
    """

    def __init__(self, state_dir: str | None, service: str, torch_version: str, engine: str) -> None:
        name = "__".join(re.sub(r"[^\w.+-]+", "-", part) or "-" for part in (service, torch_version, engine))
        self._folder = Path(state_dir, "latch", name) if state_dir else None
        self._marker: _Marker | None = None
        self._given_up = False
        self.problem = ""
        """Why no marker can be laid, in one sentence with the remedy; "" where one can."""

    def verdict(self) -> str:
        """Why the engine must stay off, in one sentence with the remedy, or "". Removes markers that mean nothing."""
        remains = self._remains()
        killed = [r for r in remains if r.signal]
        strikes = [r for r in remains if r.strike]
        for other in remains:
            if not other.signal and not other.strike:
                with contextlib.suppress(OSError):  # what stays is looked at again the next time
                    _remove(other.path)
        if killed:
            last = killed[-1]
            cause = f"this service crashed ({_signal_name(last.signal)}) in a window, phase {last.phase.name.lower()}"
        elif len(strikes) >= _STRIKES:
            phases = ", ".join(sorted({r.phase.name.lower() for r in strikes}))
            cause = f"this service died {len(strikes)} times in a window's critical phase ({phases})"
        else:
            return ""
        return f"{cause}: remove {self._folder} to try again"

    def try_out(self) -> None:
        """Find out whether a marker could be laid, before the first window needs one."""
        if self._folder is not None:
            self._attempt("latch.try_out", partial(_try_out, self._folder))

    def enter(self, phase: Phase) -> None:
        """Note what comes next. The first phase of a window lays the marker and arms the signal handlers."""
        if self._folder is None or self._given_up:
            return
        if self._marker is None or self._marker.forked:
            self._marker = self._attempt("latch.enter", partial(_Marker, self._folder))
            # One try a window: its later phases would meet the same disk.
            self._given_up = self._marker is None
        if self._marker is not None:
            self._marker.phase(phase)

    def clear(self) -> None:
        """The window is over: take the marker away."""
        marker, self._marker = self._marker, None
        self._given_up = False
        if marker is not None and not marker.forked:
            self._attempt("latch.clear", marker.remove)

    def _attempt(self, place: str, work: Callable[[], T]) -> T | None:
        """Return what ``work`` gives. What the disk refuses is told once, and is no error of ours."""
        try:
            done = work()
        except OSError as error:
            self._refused(error)
        except Exception as error:
            guard.failed(place, error)
        else:
            self.problem = ""
            return done
        return None

    def _refused(self, error: OSError) -> None:
        what_to_do = remedy(error, "set MIDWATCH_STATE_DIR to a folder that can be")
        problem = f"the crash latch is off: {self._folder} cannot be written ({error.strerror}); {what_to_do}"
        if problem != self.problem:
            self.problem = problem
            logger.warning("midwatch: %s", problem)

    def _remains(self) -> list[Remains]:
        if self._folder is None:
            return []
        try:
            paths = sorted(self._folder.glob("*.mark"))
        except OSError:
            return []
        found = (guard.call("latch.read", _read_dead, path, default=None) for path in paths)
        return [r for r in found if r is not None]


def _try_out(folder: Path) -> None:
    """Write what a marker would take. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, buffering=0) as file:
        file.write(bytes(_BYTES))


class _Marker:
    """The file of one window, locked and mapped."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._pid = os.getpid()
        self._path = folder / f"{self._pid}-{secrets.token_hex(4)}.mark"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            self._map = self._lock_and_map()
        except BaseException:
            # A full disk, no locks there, no descriptor left: what the service lacks already must not be kept as well.
            os.close(self._file)
            with contextlib.suppress(OSError):
                _remove(self._path)
            raise
        self._signal = ctypes.c_ubyte.from_buffer(self._map, _SIGNAL_AT)
        _open_markers[self._file] = self._pid
        _arm(self._signal)

    def _lock_and_map(self) -> mmap.mmap:
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._file, _MAGIC + bytes(_BYTES - len(_MAGIC)))
        # Mapped through a descriptor of its own: a mapping would keep the locked one alive in forked children.
        mapped = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return mmap.mmap(mapped, _BYTES)
        finally:
            os.close(mapped)

    @property
    def forked(self) -> bool:
        return os.getpid() != self._pid

    def phase(self, phase: Phase) -> None:
        self._map[_PHASE_AT] = phase

    def remove(self) -> None:
        _disarm()
        del self._signal  # the map cannot be closed while it is lent out
        self._map.close()
        try:
            _remove(self._path)
        finally:
            _open_markers.pop(self._file, None)
            os.close(self._file)


_open_markers: dict[int, int] = {}


def _after_fork() -> None:
    # The lock belongs to the open file, which the child shares: held on there, it would make a dead parent look alive.
    _disarm()
    for descriptor in list(_open_markers):
        os.close(descriptor)
    _open_markers.clear()


os.register_at_fork(after_in_child=lambda: guard.call("latch.fork", _after_fork, default=None))


def _read_dead(path: Path) -> Remains | None:
    """Return what a marker says; None for one whose process lives, that is gone meanwhile, or that is not for us."""
    try:
        with _opened(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = file.read(_BYTES)
    except OSError:
        return None
    if len(content) < _BYTES or not content.startswith(_MAGIC):
        return Remains(path, Phase.NONE, 0)
    phase = content[_PHASE_AT]
    return Remains(path, Phase(phase) if phase in Phase._value2member_map_ else Phase.NONE, content[_SIGNAL_AT])


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("r+b")  # a network's disk gives the lock to those alone who may write
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        return path.open("rb")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_armed = threading.Event()


def _arm(byte: ctypes.c_ubyte) -> None:
    try:
        load_library().midwatch_arm(ctypes.byref(byte))
    except ShimError:
        return  # no compiled shim: a crash is then told by its phase alone
    _armed.set()


def _disarm() -> None:
    if _armed.is_set():
        _armed.clear()
        load_library().midwatch_disarm()
