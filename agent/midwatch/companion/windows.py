"""Windows on their way from the service's trace directory to the spool, one after the other in a thread."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from midwatch.companion.batches import CHUNK_BYTES, Batcher
from midwatch.guard import guard
from midwatch.lifecycle import Worker
from midwatch.link import tracedir
from midwatch.link.frames import Frame
from midwatch.model.capture import Capture
from midwatch.model.plain import from_plain
from midwatch.model.trace import Caveat, TraceSummary
from midwatch.wire import to_message

_MOST_WAITING = 8
_READ_S = 120.0
_STALE_S = 900.0
_END_S = 10.0
"""More than it takes to say of eight windows that they were not read, with next to no processor."""
_PENDING = "pending-"
_ENDED = "the service ended before this trace was read"


class Windows:
    """Each window is noted on the tmpfs until its capture is spooled: a companion that dies leaves it to its heir.

    ``unread`` hears of each window whose trace could not be read, and why.
    """

    def __init__(
        self,
        trace_dir: Path,
        batcher: Batcher,
        drop: Callable[[str, int], None],
        *,
        send_raw: bool,
        memory_bytes: int = 1 << 30,
        unread: Callable[[str], object] = lambda _detail: None,
        command: tuple[str, ...] = (sys.executable, "-m", "midwatch.companion.reader"),
    ) -> None:
        self._dir = trace_dir
        self._batcher = batcher
        self._drop = drop
        self._send_raw = send_raw
        self._memory_bytes = memory_bytes
        self._unread = unread
        self._command = command
        self._jobs: queue.Queue[tuple[Frame, Path] | None] = queue.Queue()
        self._lock = threading.Lock()
        self._busy = 0
        self._ending = False
        self._reader: subprocess.Popen[bytes] | None = None
        self._worker = Worker("midwatch-windows", self._body)

    @property
    def idle(self) -> bool:
        """Whether no window waits or is being read."""
        return not self._busy

    def start(self) -> None:
        """Start the thread, first with what a companion before this one left."""
        self._worker.start()
        for note in sorted(self._dir.glob(f"{_PENDING}*.json")):
            with contextlib.suppress(OSError, ValueError):
                self._enqueue(json.loads(note.read_bytes()), note)

    def submit(self, frame: Frame) -> None:
        """Take a ``capture`` frame. One without a trace is spooled at once."""
        if not frame.get("trace_path"):
            self._spool(from_plain(Capture, frame["capture"]))
            return
        if self._busy >= _MOST_WAITING:
            self._fail(frame, "too many windows wait to be read")
            _discard(frame["trace_path"], frame.get("tracks_path"))
            return
        note = self._dir / f"{_PENDING}{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json"
        with contextlib.suppress(OSError):
            note.write_text(json.dumps(frame))
        self._enqueue(frame, note)

    def sweep(self) -> None:
        """Remove files that nobody asked about for a quarter of an hour: their frames were lost."""
        if self._busy:
            return
        for item in list(os.scandir(self._dir)):
            with contextlib.suppress(OSError):
                if item.name not in tracedir.OWN and time.time() - item.stat().st_mtime > _STALE_S:
                    Path(item.path).unlink()
                    self._drop("trace_file_without_capture", 1)

    def stop(self) -> None:
        """End now. A window that is being read is given up, and said to have failed."""
        self._ending = True
        reader = self._reader
        if reader is not None:
            reader.kill()
        if not self._worker.stop(_END_S, wake=lambda: self._jobs.put(None)):
            self._drop("window_unread", self._busy)

    def _enqueue(self, frame: Frame, note: Path) -> None:
        with self._lock:
            self._busy += 1
        self._jobs.put((frame, note))

    def _body(self, _stop: threading.Event) -> None:
        while (job := self._jobs.get()) is not None:
            with guard.at("companion.windows"):
                self._take(*job)
            with self._lock:
                self._busy -= 1

    def _take(self, frame: Frame, note: Path) -> None:
        tries = int(frame.get("tries", 0))
        out = Path(f"{note}.gz")
        try:
            if tries > 1:
                self._fail(frame, "the companion died twice while it read this trace")
                return
            with contextlib.suppress(OSError):
                note.write_text(json.dumps({**frame, "tries": tries + 1}))
            result = {"error": _ENDED} if self._ending else self._read(frame, out)
            if "error" in result:
                self._fail(frame, str(result["error"]))
            else:
                self._finish(frame, result, out)
        finally:
            _discard(note, out, frame["trace_path"], frame.get("tracks_path"))

    def _read(self, frame: Frame, out: Path) -> dict[str, Any]:
        """Have the window read by a process of its own."""
        watched, held = os.pipe()
        try:
            self._reader = subprocess.Popen(
                [*self._command, frame["trace_path"], frame.get("tracks_path") or "", str(out)],
                stdin=watched,
                stdout=subprocess.PIPE,
                cwd="/",
                env={
                    **os.environ,
                    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
                    "MIDWATCH_TRACE_MEMORY_BYTES": str(self._memory_bytes),
                },
            )
        finally:
            os.close(watched)
        if self._ending:
            self._reader.kill()
        try:
            printed, _ = self._reader.communicate(timeout=_READ_S)
        except subprocess.TimeoutExpired:
            self._reader.kill()
            self._reader.communicate()
            return {"error": f"reading the trace took more than {_READ_S:.0f} s"}
        finally:
            os.close(held)
        code, self._reader = self._reader.returncode, None
        if self._ending:
            return {"error": _ENDED}
        if code:
            return {"error": f"reading the trace ended with code {code} (out of memory, as a rule)"}
        return dict(json.loads(printed))

    def _finish(self, frame: Frame, result: dict[str, Any], out: Path) -> None:
        capture = from_plain(Capture, frame["capture"])
        caveats = tuple(from_plain(Caveat, one) for one in result["caveats"])
        summary = from_plain(TraceSummary, result["summary"])
        self._spool(replace(capture, summary=summary, caveats=capture.caveats + caveats))
        if not self._send_raw:
            return
        total = out.stat().st_size
        with out.open("rb") as file:
            for offset in range(0, total, CHUNK_BYTES):
                self._batcher.chunk(capture.capture_id, offset, file.read(CHUNK_BYTES), total)

    def _fail(self, frame: Frame, detail: str) -> None:
        self._unread(detail)
        self._spool(replace(from_plain(Capture, frame["capture"]), state="failed", detail=detail))

    def _spool(self, capture: Capture) -> None:
        self._batcher.evidence(capture=to_message(capture))


def _discard(*paths: str | Path | None) -> None:
    for path in paths:
        if path:
            with contextlib.suppress(OSError):
                Path(path).unlink()
