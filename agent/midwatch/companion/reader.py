"""A process that reads one window and ends: ``python -m midwatch.companion.reader TRACE TRACKS OUT``.

Apart from the companion, since a trace of a hundred megabytes takes seconds of CPU under the GIL and memory that an
interpreter does not give back. Prints one JSON object: ``summary`` and ``caveats``, or ``error``, one sentence.
Ends when its standard input does, so that it never outlives the companion.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import threading
from pathlib import Path
from typing import Any

_SPARE_BYTES = 1 << 30
"""What the process may take beyond what reading keeps to, before it is stopped."""


def read_window(trace: Path, tracks: Path | None, out: Path, memory_bytes: int = 1 << 30) -> dict[str, Any]:
    """Put ``trace`` and ``tracks`` together in ``out``, and return summary and caveats in plain form.

    What does not fit into ``memory_bytes`` is cut off.

    Both inputs are removed as soon as they are in ``out``: they lie on a tmpfs.

    Raises:
        ValueError: the files are no trace, in one sentence.
        OSError: a file cannot be read or written.
    """
    from midwatch.capture.check import check_trace
    from midwatch.companion.merge import merge
    from midwatch.model.plain import to_plain
    from midwatch.trace import summarise

    caveats = check_trace(trace)
    merge(trace, tracks, out)
    for source in (trace, tracks):
        if source is not None:
            source.unlink(missing_ok=True)
    return {"summary": to_plain(summarise(out, memory_bytes=memory_bytes)), "caveats": to_plain(caveats)}


def main(arguments: list[str]) -> int:
    """Read the window and print what came of it."""
    trace, tracks, out = arguments
    memory_bytes = int(os.environ.get("MIDWATCH_TRACE_MEMORY_BYTES") or 1 << 30)
    limit = memory_bytes + _SPARE_BYTES
    threading.Thread(target=_end_with_stdin, name="midwatch-reader-watch", daemon=True).start()
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with contextlib.suppress(OSError):
        # Where memory runs out, this process must go and not the service.
        Path("/proc/self/oom_score_adj").write_text("1000")
    try:
        result = read_window(Path(trace), Path(tracks) if tracks else None, Path(out), memory_bytes)
    except MemoryError:
        result = {"error": f"the trace is too large to be read in {limit >> 20} MiB of memory"}
    except ImportError as error:
        result = {"error": f"the trace cannot be read here: {error}; pip install midwatch brings what is missing"}
    except Exception as error:
        result = {"error": f"the trace cannot be read: {str(error) or type(error).__name__}"}
    json.dump(result, sys.stdout)
    return 0


def _end_with_stdin() -> None:
    # Not through `sys.stdin`, whose lock this thread would hold when the interpreter ends.
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
