"""One end of the socket between the agent and its companion: frames in, frames out, never waiting.

A frame is a JSON object in one packet of a ``SOCK_SEQPACKET`` socket; values in it may have been written already
(`JsonText`). What does not fit into a packet goes through a file in the trace directory.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

from midwatch.model.pieces import JsonText

Frame = dict[str, Any]

MAX_PACKET_BYTES = 64 * 1024
MAX_FRAME_BYTES = 64 * 1024 * 1024
"""A frame beyond this is a mistake of ours; it is dropped before it fills a tmpfs that the service needs."""


class Channel:
    """One end. Nothing here waits. Any thread may send, one at a time may receive."""

    def __init__(self, sock: socket.socket, spill_dir: str) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._spill_dir = spill_dir

    def fileno(self) -> int:
        """Return the descriptor, to wait on for reading; -1 once closed."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close this end."""
        self._sock.close()

    def send(self, frame: Frame) -> str:
        """Send one frame. Return "" or the reason for which it was dropped."""
        try:
            packet = _encode(frame)
        except (TypeError, ValueError, RecursionError):
            return "link_unencodable"
        if len(packet) > MAX_FRAME_BYTES:
            return "link_too_large"
        if len(packet) > MAX_PACKET_BYTES:
            return self._send_by_file(packet)
        return self._send_packet(packet, spill=True)

    def receive(self, limit: int = 256) -> tuple[list[Frame], bool]:
        """Return at most ``limit`` frames that lie in the socket, and whether the other side has closed its end.

        A packet that is no frame is skipped: nothing that one process writes may stop the other.
        """
        frames: list[Frame] = []
        for _ in range(limit):
            try:
                packet = self._sock.recv(MAX_PACKET_BYTES + 1)
            except (BlockingIOError, InterruptedError):
                return frames, False
            except OSError:
                return frames, True
            if not packet:
                return frames, True
            frame = _decode(packet)
            if frame is not None and frame.get("t") == "file":
                frame = _read_and_remove(str(frame.get("path", "")))
            if frame is not None:
                frames.append(frame)
        return frames, False

    def _send_packet(self, packet: bytes, *, spill: bool) -> str:
        try:
            # MSG_NOSIGNAL: a host may have set SIGPIPE back to its deadly default.
            self._sock.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except (BlockingIOError, InterruptedError):
            return "link_full"
        except OSError as error:
            if spill and error.errno == errno.EMSGSIZE:
                return self._send_by_file(packet)
            return "link_closed"
        return ""

    def _send_by_file(self, packet: bytes) -> str:
        try:
            handle, path = tempfile.mkstemp(prefix="frame-", suffix=".json", dir=self._spill_dir)
        except OSError:
            return "link_spill_failed"
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(packet)
            reason = self._send_packet(json.dumps({"t": "file", "path": path}).encode(), spill=False)
        except OSError:
            reason = "link_spill_failed"
        if reason:
            _remove(path)
        return reason


def _encode(frame: Frame) -> bytes:
    fields = (
        f"{json.dumps(name)}:{value.text if type(value) is JsonText else json.dumps(value, separators=(',', ':'))}"
        for name, value in frame.items()
    )
    return f"{{{','.join(fields)}}}".encode()


def _decode(packet: bytes) -> Frame | None:
    try:
        frame = json.loads(packet)
    except (ValueError, RecursionError):
        return None
    return frame if isinstance(frame, dict) else None


def _read_and_remove(path: str) -> Frame | None:
    try:
        return _decode(Path(path).read_bytes())
    except OSError:
        return None
    finally:
        _remove(path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()
