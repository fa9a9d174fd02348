"""``python -m midwatch.companion --fd N --parent PID``, with the ``hello`` frame on standard input."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

from midwatch.companion.loop import Loop, Sink
from midwatch.companion.nowhere import Nowhere
from midwatch.companion.parent import Parent
from midwatch.link import tracedir
from midwatch.link.frames import Channel, Frame
from midwatch.model.plain import from_plain
from midwatch.model.resource import Resource
from midwatch.model.settings import CompanionSettings

_NICE = 10
_OOM_SCORE = "500"


def main() -> None:
    """Serve one service process, and end with it."""
    options = argparse.ArgumentParser(prog="midwatch.companion", description="Started by the agent, not by hand.")
    options.add_argument("--fd", type=int, required=True)
    options.add_argument("--parent", type=int, required=True)
    given = options.parse_args()
    parent = Parent(given.parent)
    # One line, not all there is: a forked child of the service may have inherited the other end and hold it open.
    hello = json.loads(sys.stdin.buffer.readline())
    settings = from_plain(CompanionSettings, hello["settings"])
    _step_back()
    channel = Channel(socket.socket(fileno=given.fd), settings.trace_dir)
    loop = Loop(channel, parent, _sink(hello, settings, channel), alarm=signal.alarm)
    signal.signal(signal.SIGTERM, lambda *_: loop.end())
    loop.run()
    if loop.orphaned and settings.trace_dir:
        tracedir.remove(Path(settings.trace_dir))
    # Not through the interpreter's end: a thread of gRPC's may hang there, and nobody would come to free it.
    sys.stderr.flush()
    os._exit(0)


def _step_back() -> None:
    """Let the service go first: for the processor, and where memory runs out. A terminal's Ctrl-C is not for us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


def _sink(hello: Frame, settings: CompanionSettings, channel: Channel) -> Sink:
    if not settings.collector:
        return Nowhere("no collector is set, so nothing is sent: set MIDWATCH_COLLECTOR to its host:port", channel.send)
    try:
        from midwatch.companion.upstream import Upstream
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("grpc", "google"):
            reason = "grpc is not installed in this environment: pip install grpcio protobuf"
        else:
            reason = f"the companion lacks a module ({error}): pip install midwatch brings it"
        return Nowhere(reason, channel.send)
    except Exception as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        reason = f"grpc or protobuf of this environment does not fit ({said}): pip install -U grpcio protobuf"
        return Nowhere(reason, channel.send)
    return Upstream(from_plain(Resource, hello["resource"]), settings, channel.send)


if __name__ == "__main__":
    main()
