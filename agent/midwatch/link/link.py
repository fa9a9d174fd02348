"""The service's side of the companion: starting it, feeding it, and hearing from it.

The service keeps both ends of the socket. So a companion that dies leaves the frames that it had not read yet to the
next one, and a write never meets a closed socket. The price: its death shows in `Link.tick` alone.

Nothing here waits, except `flush` and `stop`, which say for how long. In a forked child of the service every call does
nothing: the socket is the parent's, and a frame of the child's would be taken for the parent's.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from midwatch.clock import Clock
from midwatch.config import Settings, state_dir
from midwatch.drops import Drops, drops
from midwatch.guard import guard, logger
from midwatch.link import tracedir
from midwatch.link.child import Child
from midwatch.link.frames import Channel, Frame
from midwatch.link.spawn import interpreter_problem, spawn_companion
from midwatch.model.plain import to_plain
from midwatch.model.resource import Resource
from midwatch.model.settings import CompanionSettings
from midwatch.model.status import Part
from midwatch.shortage import remedy

Spawn = Callable[[tuple[int, ...], bytes, str], "subprocess.Popen[bytes]"]

_SOCKET_BYTES = 1 << 20
"""Asked for; the kernel gives what ``net.core.wmem_max`` allows, 208 KiB by default."""
_END_GRACE_S = 0.5
_LATE_GRACE_S = 1.0
"""Kept for a companion that did not confirm in time: so long the service stays, in case all around it ends with it."""
_MOST_UNREAD = 100_000
_AGAIN_NS = 10_000_000_000
"""Folders get room, and processes descriptors, again: what could not be made is tried anew after so long."""


class Link:
    """One companion and the way to it. `send` may be called from any thread."""

    def __init__(
        self,
        settings: Settings,
        resource: Resource,
        clock: Clock,
        *,
        count: Drops = drops,
        spawn: Spawn = spawn_companion,
    ) -> None:
        self._settings = settings
        self._resource = resource
        self._clock = clock
        self._count = count
        self._spawn = spawn
        # Re-entrant, since a signal handler or a callback of the garbage collector may send a frame amid a send.
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._off = "not started"
        self._again_ns = 0
        """When to try again what could not be made; 0 where there is nothing to try."""
        self._child = Child(clock, self._execute)
        self._ours: Channel | None = None
        self._theirs: socket.socket | None = None
        self._hello_due = False
        self._trace_dir: Path | None = None
        self._trace_lock = -1
        self._sent = 0
        """The number of the last frame."""
        self._inbox: list[Frame] = []
        self._flushes = 0
        self._flushed = 0
        self._connected = False
        self._detail = "the companion is starting"

    @property
    def trace_dir(self) -> str:
        """The private directory for traces and tracks; "" where there is no companion to read them."""
        return str(self._trace_dir) if self._trace_dir and not self._off else ""

    @property
    def connected(self) -> bool:
        """Whether the companion said last that it reaches the collector."""
        return self._connected

    def start(self) -> None:
        """Make the directory and the socket, and execute the companion. What fails is said by `status`."""
        if self._elsewhere():
            return
        with self._lock:
            if self._ours is not None:
                return
            self._off = interpreter_problem()
            if self._off:
                return
            try:
                self._open()
            except OSError as error:
                place = f": {error.filename}" if error.filename else ""
                self._off = (
                    f"the trace folder or the companion's socket could not be made ({error.strerror}{place}); "
                    f"nothing is sent: {remedy(error, 'set MIDWATCH_TRACE_DIR to a folder that can be written')}"
                )
                self._again_ns = self._clock.perf_ns() + _AGAIN_NS
                self._close()
                return
            self._again_ns = 0
        self._child.start()

    def send(self, frame: dict[str, Any]) -> bool:
        """Hand one frame to the companion and return whether it was taken; one that was not is a counted drop."""
        if self._elsewhere():
            return False
        with self._lock:
            number = self._sent = self._sent + 1
            reason = "link_off" if self._ours is None else self._ours.send({**frame, "n": number})
            if reason and number == self._sent:  # a number that is missing is a frame that was lost on the way
                self._sent -= 1
        if reason:
            self._count.drop(reason)
        return not reason

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the companion says something; -1 where there is none."""
        channel = None if self._elsewhere() else self._ours
        return -1 if channel is None else channel.fileno()

    def receive(self) -> list[dict[str, Any]]:
        """Return what came in and concerns the agent: the ``order`` frames."""
        if self._elsewhere():
            return []
        with self._lock:
            self._read()
            frames, self._inbox = self._inbox, []
        return frames

    def update(self, resource: Resource) -> None:
        """Tell the companion, and each later one, what has become known of the process (torch, devices)."""
        if self._elsewhere():
            return
        with self._lock:
            self._resource = resource
            self._hello_due = True
            self._say_hello()

    def tick(self) -> bool:
        """Look after the companion, about once a second. Return whether a new one was started."""
        if self._elsewhere():
            return False
        if self._again_ns and self._clock.perf_ns() >= self._again_ns:
            self.start()
            return not self._off
        if self._off:
            return False
        started = self._child.tick()
        if started:
            with self._lock:
                self._connected, self._detail = False, "the companion was started anew"
        if self._hello_due:
            with self._lock:
                self._say_hello()
        return started

    def flush(self, timeout_s: float = 3.0) -> bool:
        """Wait until the companion has sent on all that it was given, or put it on disk. Return whether it said so."""
        if self._elsewhere() or self._off or not self._child.pid:
            return False
        deadline_ns = self._clock.perf_ns() + int(timeout_s * 1e9)
        with self._lock:
            self._flushes += 1
            wanted = self._flushes
        asked = False
        while True:
            with self._lock:
                if self._ours is None:
                    return False
                # Not through `send`: a socket that is full for a moment is no loss here, it is asked again.
                asked = asked or not self._ours.send({"t": "flush", "id": wanted})
                self._read()
            left_s = self._left_s(deadline_ns)
            if self._flushed >= wanted or not left_s or not self._child.pid:
                return self._flushed >= wanted
            # In short turns, since another thread may be the one that reads the answer.
            self._wait(min(left_s, 0.05), select.POLLIN)

    def stop(self, timeout_s: float = 3.0) -> None:
        """Flush, and let the companion end; all of it takes ``timeout_s`` at most, whatever hangs.

        A companion is never killed here. One that gets next to no processor needs longer than a service may be held
        up: it goes on alone with all that it was given, and its own limit. Where there is none any more (a service
        manager may end all processes of a service at once), a last one takes what was left unread.
        """
        if self._elsewhere():
            return
        deadline_ns = self._clock.perf_ns() + int(timeout_s * 1e9)
        confirm_ns = deadline_ns - int(_LATE_GRACE_S * 1e9)
        flushed = self.flush(self._left_s(confirm_ns))
        if not flushed and self._revive():
            flushed = self.flush(self._left_s(confirm_ns))
        end_ns = min(deadline_ns, self._clock.perf_ns() + int(_END_GRACE_S * 1e9)) if flushed else deadline_ns
        self._say_bye(end_ns)
        gone = self._child.end(self._left_s(end_ns))
        with self._lock:
            self._read()
            if gone:
                self._count_unread()
            else:
                logger.info("midwatch: the companion is not done yet; it goes on alone")
            self._close(leave_folder=not gone)

    def status(self) -> Part:
        """Say in one line how the companion and its way to the collector are."""
        if self._elsewhere():
            return Part("companion", "off", "this process was forked from the one that is watched")
        if self._off:
            return Part("companion", "off" if self._off in ("not started", "stopped") else "unavailable", self._off)
        if self._child.starting:
            return Part("companion", "off", "the companion is being started")
        if not self._child.pid:
            return Part("companion", "failed", self._child.detail or "the companion died; a new one follows")
        return Part("companion", "on" if self._connected else "unavailable", self._detail)

    def _revive(self) -> bool:
        """Start a companion where none runs and something is left to read. Return whether one was started."""
        if self._off or self._child.pid:
            return False
        return self._unread() and self._child.start()

    def _unread(self) -> bool:
        """Whether a frame lies in the socket, or a window in the folder."""
        theirs, folder = self._theirs, self._trace_dir
        if theirs is None or folder is None:
            return False
        with contextlib.suppress(OSError):
            return bool(theirs.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        return tracedir.holds_files(folder)

    def _left_s(self, until_ns: int) -> float:
        return max(0.0, (until_ns - self._clock.perf_ns()) / 1e9)

    def _say_bye(self, end_ns: int) -> None:
        """Tell the companion that nothing more comes; a socket that is full gets until ``end_ns`` to become less so."""
        with self._lock:
            self._off = self._off or "stopped"
            self._again_ns = 0
            self._connected = False
            if self._ours is None or not self._ours.send({"t": "bye"}):
                return
        if self._child.pid:
            self._wait(self._left_s(end_ns), select.POLLOUT)
            with self._lock:
                if self._ours is not None:
                    self._ours.send({"t": "bye"})

    def _count_unread(self) -> None:
        """Count what no companion will read any more; the caller holds the lock."""
        if self._theirs is None:
            return
        frames, _ = Channel(self._theirs, "").receive(_MOST_UNREAD)
        lost = sum("n" in frame for frame in frames)
        if lost:
            self._count.drop("link_unread", lost)

    def _elsewhere(self) -> bool:
        """Whether this is a forked child. Takes no lock: a thread of the parent's may have held it at the fork."""
        if os.getpid() == self._pid:
            return False
        ours, self._ours = self._ours, None
        theirs, self._theirs = self._theirs, None
        if ours is not None:
            ours.close()
        if theirs is not None:
            theirs.close()
        return True

    def _open(self) -> None:
        among = tracedir.bases(self._settings.trace_dir)
        tracedir.sweep(among)
        self._trace_dir, self._trace_lock = tracedir.create(self._resource.agent_id, among)
        ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, self._theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        self._ours = Channel(ours, str(self._trace_dir))

    def _execute(self) -> subprocess.Popen[bytes]:
        theirs = self._theirs
        if theirs is None:
            raise OSError("the link is closed")
        hello = json.dumps(self._hello()).encode()
        return self._spawn((theirs.fileno(), self._trace_lock), hello, self._log_path())

    def _hello(self) -> Frame:
        settings = CompanionSettings(
            collector=self._settings.collector,
            token=self._settings.token,
            state_dir=str(state_dir(self._settings)),
            spool_bytes=self._settings.spool_bytes,
            raw_traces=self._settings.raw_traces,
            trace_memory_bytes=self._settings.trace_memory_bytes,
            trace_dir=str(self._trace_dir or ""),
        )
        return {"t": "hello", "resource": to_plain(self._resource), "settings": to_plain(settings)}

    def _say_hello(self) -> None:
        if self._ours is not None and not self._ours.send(self._hello()):
            self._hello_due = False

    def _log_path(self) -> str:
        return str(state_dir(self._settings) / "companion.log") if self._settings.log_level == "debug" else ""

    def _read(self) -> None:
        if self._ours is None:
            return
        for frame in self._ours.receive()[0]:
            with guard.at("link.frame"):
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        kind = frame.get("t")
        if kind == "flushed":
            self._flushed = max(self._flushed, int(frame.get("id", 0)))
        elif kind == "link":
            self._connected = bool(frame.get("connected"))
            self._detail = str(frame.get("detail", ""))
        elif kind == "lost":
            count = int(frame.get("count", 0))
            self._count.drop("companion_lost", count)
            logger.warning("midwatch: %d records were lost with a companion that died, or could not read them", count)
        else:
            self._inbox.append(frame)

    def _wait(self, seconds: float, what: int) -> None:
        with contextlib.suppress(OSError, ValueError):
            poll = select.poll()
            poll.register(self.fileno(), what)
            poll.poll(seconds * 1e3)

    def _close(self, *, leave_folder: bool = False) -> None:
        """Close all; the caller holds the lock. The folder is left to a companion that goes on."""
        if self._ours is not None:
            self._ours.close()
        if self._theirs is not None:
            self._theirs.close()
        self._ours = self._theirs = None
        if self._trace_dir is not None and not leave_folder:
            tracedir.remove(self._trace_dir)
        if self._trace_lock >= 0:
            os.close(self._trace_lock)
        self._trace_dir, self._trace_lock = None, -1
