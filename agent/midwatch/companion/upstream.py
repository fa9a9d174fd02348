"""All that goes on towards the collector: records into batches, batches through the spool, orders the other way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from midwatch_proto.v1 import control_pb2

from midwatch.companion.batches import Batcher
from midwatch.companion.connection import Connection
from midwatch.companion.control import Control, opening, refusal, update_of
from midwatch.companion.loop import CALM_S
from midwatch.companion.progress import Progress
from midwatch.companion.spool import Spool
from midwatch.companion.uploader import Uploader
from midwatch.companion.windows import Windows
from midwatch.drops import Drops
from midwatch.link.frames import Frame
from midwatch.model.capture import Capture, CaptureOrder
from midwatch.model.plain import from_plain, to_plain
from midwatch.model.requests import RouteStats
from midwatch.model.resource import Resource
from midwatch.model.samples import GpuSample, HostSample
from midwatch.model.settings import CompanionSettings
from midwatch.model.spike import Spike
from midwatch.model.status import AgentStatus, Part
from midwatch.wire import to_message

_SAMPLES = (
    ("routes", "route_stats", RouteStats),
    ("gpu", "gpu_sample", GpuSample),
    ("host", "host_sample", HostSample),
)
_STATUS_S = 60.0
_ADOPT_S = 60.0
_NEWS_S = 5.0


class Upstream:
    """The way to one collector. `handle`, `tick` and the rest belong to the companion's main thread."""

    def __init__(self, resource: Resource, settings: CompanionSettings, to_agent: Callable[[Frame], str]) -> None:
        self._to_agent = to_agent
        self._drops = Drops()
        root = Path(settings.state_dir) / "spool" if settings.state_dir else None
        self._spool = Spool(root, resource.agent_id, settings.spool_bytes, self._drops.drop)
        self._batcher = Batcher(self._spool, resource)
        self._connection = Connection(settings.collector, settings.token)
        self._windows = Windows(
            Path(settings.trace_dir),
            self._batcher,
            self._drops.drop,
            send_raw=_raw_allowed(settings),
            memory_bytes=settings.trace_memory_bytes,
            unread=lambda detail: to_agent({"t": "unread", "detail": detail}),
        )
        self._uploader = Uploader(self._spool, self._connection, self._drops.drop, self._upload_news)
        self._control = Control(
            self._connection,
            hello=self._hello,
            heartbeat=lambda: control_pb2.Heartbeat(status=to_message(self._full_status())),
            on_order=self._order,
            report=self._control_news,
        )
        self._status = AgentStatus(unix_ns=time.time_ns(), state="warming_up", detail="no word from the agent yet")
        self._status_sent_s = float("-inf")
        self._adopted_s = float("-inf")
        self._attached = False
        self._control_trouble = ""
        self._upload_trouble = ""
        self._said: tuple[bool, str, int, str] | None = None
        self._said_s = 0.0
        self._failed_at_flush = (-1, -1)
        self._progress = Progress(Path(settings.trace_dir), self._tell_loss)
        self._drops_said: tuple[tuple[str, int], ...] = ()
        self._rouse: Callable[[], None] = lambda: None

    def start(self, rouse: Callable[[], None]) -> None:
        """Start the threads, which may have news."""
        self._rouse = rouse
        self._windows.start()
        self._uploader.start()
        self._control.start()

    def handle(self, frame: Frame) -> None:
        """Take one frame of the agent's. One that cannot be understood is dropped and counted."""
        number = frame.get("n")
        if isinstance(number, int):
            self._progress.got(number)
        try:
            self._dispatch(frame)
        except (KeyError, TypeError, ValueError, AttributeError):
            self._drops.drop(f"frame_malformed_{frame.get('t')}")
        self._keep()

    def tick(self) -> float:
        """Do what is due."""
        now_s = time.monotonic()
        left_s = self._batcher.tick()
        self._keep()
        self._uploader.check()
        if now_s - self._adopted_s > _ADOPT_S:
            self._adopted_s = now_s
            self._spool.adopt()
            self._windows.sweep()
        self._tell_agent(now_s)
        return CALM_S if left_s is None else min(left_s, CALM_S)

    def ask_flush(self) -> None:
        """Begin to get everything out: try the collector once more, now."""
        self._batcher.flush()
        self._keep()
        self._failed_at_flush = self._failed()
        self._uploader.kick()
        self._control.kick()

    def flushed(self) -> bool:
        """Return whether all is sent, or on disk with a collector that cannot be had."""
        if not self._windows.idle:
            return False
        self._batcher.flush()
        sent = not self._spool.waiting and (self._control.drained() or not self._attached)
        return sent or self._failed() != self._failed_at_flush

    def reading(self) -> bool:
        """Return whether windows are still being read."""
        return not self._windows.idle

    def close(self) -> None:
        """Stop all threads; what was not sent stays on disk, and where that takes nothing it is lost."""
        self._windows.stop()
        if self._drops.counts() != self._drops_said:
            self._sample_status()
        self._batcher.flush()
        self._control.stop()
        self._uploader.stop()
        if self._spool.unsaved:
            self._tell_loss(self._spool.unsaved)
        self._progress.keep(0)
        self._connection.close()
        self._spool.close()

    def _failed(self) -> tuple[int, int]:
        """How often the collector could not be had: by the upload, and by whoever looked whether it is there."""
        return self._uploader.failures, self._connection.misses

    def _keep(self) -> None:
        self._progress.keep(self._batcher.gathered + self._spool.unsaved)

    def _tell_loss(self, count: int) -> None:
        """Have the agent count what this companion, or the one before it, takes along; people read the agent's log."""
        if self._to_agent({"t": "lost", "count": count}):
            self._drops.drop("companion_lost", count)

    def _dispatch(self, frame: Frame) -> None:
        kind = frame.get("t")
        if kind == "stats":
            for key, field, cls in _SAMPLES:
                for one in frame.get(key, ()):
                    self._batcher.sample(**{field: to_message(from_plain(cls, one))})
        elif kind == "spike":
            self._batcher.evidence(spike=to_message(from_plain(Spike, frame["spike"])))
        elif kind == "capture":
            self._capture(frame)
        elif kind == "open":
            self._control.update(opening(frame["command_id"], frame["capture_id"]))
        elif kind == "status":
            self._take_status(from_plain(AgentStatus, frame["status"]))
        elif kind == "hello":
            resource = from_plain(Resource, frame["resource"])
            if resource != self._batcher.resource:
                self._batcher.resource = resource
                self._control.renew()
        else:
            raise ValueError(kind)

    def _capture(self, frame: Frame) -> None:
        capture = from_plain(Capture, frame["capture"])
        if capture.command_id:
            self._control.update(update_of(capture))
        self._windows.submit(frame)

    def _take_status(self, status: AgentStatus) -> None:
        news = (status.state, status.parts) != (self._status.state, self._status.parts)
        self._status = status
        if news:
            self._control.beat()
        if news or time.monotonic() - self._status_sent_s > _STATUS_S:
            self._status_sent_s = time.monotonic()
            self._sample_status()

    def _sample_status(self) -> None:
        self._drops_said = self._drops.counts()
        self._batcher.sample(agent_status=to_message(self._full_status()))

    def _full_status(self) -> AgentStatus:
        """Return the agent's word, with the companion's own losses and parts in it."""
        drops = dict(self._status.drops)
        for reason, count in self._drops.counts():
            drops[reason] = drops.get(reason, 0) + count
        spool = Part("spool", "unavailable" if self._spool.problem else "on", self._spool.problem)
        parts = (*self._status.parts, spool, Part("upload", "on", self._refusal()))
        return replace(self._status, drops=tuple(sorted(drops.items())), parts=parts)

    def _refusal(self) -> str:
        """Say what the collector refused last; "" where it has refused nothing."""
        reason = self._uploader.refusal
        return reason and f"the collector refused records, the last because of this: {reason}"

    def _hello(self) -> Any:
        return control_pb2.AgentHello(
            resource=to_message(self._batcher.resource), status=to_message(self._full_status())
        )

    def _order(self, order: CaptureOrder) -> None:
        reason = self._to_agent({"t": "order", "order": to_plain(order)})
        if reason:
            detail = "the service does not take orders now: its agent is stopped or stalled"
            self._control.update(update_of(refusal(order, detail)))

    def _upload_news(self, trouble: str) -> None:
        news = trouble != self._upload_trouble
        self._upload_trouble = trouble
        if news:
            self._rouse()

    def _control_news(self, trouble: str) -> None:
        found = not trouble and not self._attached
        news = found or trouble != self._control_trouble
        self._attached = not trouble
        self._control_trouble = trouble
        if found:
            self._uploader.kick()
        if news:
            self._rouse()

    def _tell_agent(self, now_s: float) -> None:
        """Say how the way to the collector is, when that changed."""
        connected, waiting = self._attached, self._spool.waiting
        trouble = self._control_trouble or (self._upload_trouble if waiting else "")
        if not connected and not trouble:
            return
        refusal = self._refusal()
        news = (connected, trouble, waiting if trouble else 0, refusal)
        same = self._said is not None and news[:2] == self._said[:2]
        if news == self._said or (same and now_s - self._said_s < _NEWS_S):
            return
        detail = trouble or f"connected to the collector at {self._connection.address}"
        if trouble and waiting:
            detail += f"; {waiting} batch{' waits' if waiting == 1 else 'es wait'} {self._place()}"
        if refusal:
            detail += f"; {refusal}"
        if not self._to_agent({"t": "link", "connected": connected, "detail": detail}):
            self._said, self._said_s = news, now_s

    def _place(self) -> str:
        return "in memory" if self._spool.problem else "on disk"


def _raw_allowed(settings: CompanionSettings) -> bool:
    """Whether raw traces may leave; ``auto`` lets them go to this very host."""
    if settings.raw_traces != "auto":
        return settings.raw_traces == "always"
    host = settings.collector.rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1") or host.startswith("127.") or settings.collector.startswith("unix:")
