"""Holds the command stream: says who we are and that we live, takes orders, tells how far a command is."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import grpc
from midwatch_proto.v1 import control_pb2

from midwatch.companion.connection import Connection
from midwatch.companion.retry import Retry
from midwatch.guard import guard
from midwatch.lifecycle import Worker
from midwatch.model.capture import Capture, CaptureOrder
from midwatch.wire import from_message

_HEARTBEAT_S = 10.0
_CAP_S = 5.0
"""A collector that comes back after an outage has its agents again within about this time."""
_REPEAT_S = 30.0
"""Updates as young as this are said again on a new stream: nobody knows whether the old one still carried them."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")

_STATES = {
    "done": control_pb2.COMMAND_STATE_DONE,
    "refused": control_pb2.COMMAND_STATE_REFUSED,
}


def update_of(capture: Capture) -> Any:
    """Return what a command is told of the capture that answers it. An empty window is a failed command."""
    return control_pb2.CommandUpdate(
        command_id=capture.command_id,
        state=_STATES.get(capture.state, control_pb2.COMMAND_STATE_FAILED),
        detail=capture.detail,
        capture_id=capture.capture_id,
    )


def opening(command_id: str, capture_id: str) -> Any:
    """Return what a command is told when its window opens."""
    return control_pb2.CommandUpdate(command_id=command_id, state=control_pb2.COMMAND_STATE_OPEN, capture_id=capture_id)


def refusal(order: CaptureOrder, detail: str) -> Capture:
    """Return the capture that says why ``order`` is not carried out."""
    return Capture(order.capture_id, order.reason, "refused", detail=detail, command_id=order.command_id)


class Control:
    """One stream in one thread, opened again whenever it ends.

    Args:
        connection: where to.
        hello: gives the first message of a stream.
        heartbeat: gives a sign of life.
        on_order: takes an order; called in this thread.
        report: hears "" when the collector answered, and a sentence when the stream ended.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        hello: Callable[[], Any],
        heartbeat: Callable[[], Any],
        on_order: Callable[[CaptureOrder], None],
        report: Callable[[str], None],
        retry: Retry | None = None,
    ) -> None:
        self._connection = connection
        self._hello = hello
        self._heartbeat = heartbeat
        self._on_order = on_order
        self._report = report
        self._retry = retry or Retry(cap_s=_CAP_S)
        self._wake = threading.Event()
        self._changed = threading.Condition()
        self._updates: deque[Any] = deque(maxlen=64)
        self._said: deque[tuple[float, Any]] = deque(maxlen=64)
        self._seen: deque[str] = deque(maxlen=64)
        self._stream_number = 0
        """Of the stream that is open; a generator of an older one sees that it is no longer wanted."""
        self._call: Any = None
        self._renewed = False
        self._unreached = False
        """Whether the last stream ended because nobody could be reached."""
        self._news = False
        self._worker = Worker("midwatch-control", self._body)

    def start(self) -> None:
        """Start the thread."""
        self._worker.start()

    def stop(self) -> None:
        """Break the stream off and end the thread."""
        self._worker.stop(wake=self._interrupt)

    def kick(self) -> None:
        """Try again now rather than later."""
        self._retry.reset()
        self._wake.set()

    def renew(self) -> None:
        """Say hello anew, on a new stream: what the first one said of the process is out of date."""
        with self._changed:
            call, self._renewed = self._call, self._call is not None
        if call is not None:
            call.cancel()

    def update(self, update: Any) -> None:
        """Tell the collector how far a command is, now or when the stream is open again."""
        with self._changed:
            self._updates.append(update)
            self._changed.notify_all()

    def beat(self) -> None:
        """Give a sign of life now, since there is news in it."""
        with self._changed:
            self._news = True
            self._changed.notify_all()

    def drained(self) -> bool:
        """Return whether no update waits."""
        with self._changed:
            return not self._updates

    def _interrupt(self) -> None:
        self._wake.set()
        with self._changed:
            call = self._call
            self._stream_number += 1
            self._changed.notify_all()
        if call is not None:
            call.cancel()

    def _body(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._wake.clear()
            with guard.at("companion.control"):
                error = self._stream(stop)
                self._unreached = error is not None and error.code() == grpc.StatusCode.UNAVAILABLE
                if not stop.is_set() and not self._renewed:
                    self._report(self._connection.explain(error) if error is not None else self._ended())
            renewed, self._renewed = self._renewed, False
            if not stop.is_set() and not renewed:
                self._pause(stop)

    def _pause(self, stop: threading.Event) -> None:
        """Wait until it is time for the next stream; where nobody was reached, until somebody answers a knock."""
        while not stop.is_set():
            self._wake.wait(self._retry.delay_s())
            self._wake.clear()
            trouble = self._connection.knock() if self._unreached and not stop.is_set() else ""
            if not trouble:
                return
            self._report(trouble)

    def _ended(self) -> str:
        return f"the collector at {self._connection.address} closed the connection"

    def _stream(self, stop: threading.Event) -> Any:
        with self._changed:
            if stop.is_set():
                return None
            self._stream_number += 1
            self._recall()
            messages = self._messages(self._stream_number)
            self._call = call = self._connection.attach(messages)
        error = None
        try:
            for message in call:
                self._retry.reset()
                self._report("")
                if message.WhichOneof("message") == "order":
                    with guard.at("companion.order"):
                        self._take(message.order)
        except grpc.RpcError as broken:
            error = broken
        finally:
            with self._changed:
                self._stream_number += 1
                self._call = None
                self._changed.notify_all()
            call.cancel()
        return error

    def _messages(self, number: int) -> Iterator[Any]:
        """Yield what there is to say; runs in a thread of gRPC's."""
        yield control_pb2.AgentMessage(hello=self._hello())
        beat_s = time.monotonic()
        while True:
            with self._changed:
                left_s = 0.0 if self._news else beat_s + _HEARTBEAT_S - time.monotonic()
                if number == self._stream_number and not self._updates and left_s > 0:
                    self._changed.wait(left_s)
                if number != self._stream_number:
                    return
                update = self._updates.popleft() if self._updates else None
                if update is not None:
                    self._said.append((time.monotonic(), update))
                due = update is None and (self._news or time.monotonic() - beat_s >= _HEARTBEAT_S)
                self._news = self._news and not due
            if update is not None:
                yield control_pb2.AgentMessage(command_update=update)
            elif due:
                beat_s = time.monotonic()
                yield control_pb2.AgentMessage(heartbeat=self._heartbeat())

    def _recall(self) -> None:
        """Queue young updates again; the caller holds the lock."""
        oldest_s = time.monotonic() - _REPEAT_S
        self._updates.extendleft(update for when_s, update in reversed(self._said) if when_s > oldest_s)
        self._said.clear()

    def _take(self, message: Any) -> None:
        order: CaptureOrder = from_message(message.order)
        command_id = message.command_id or order.command_id
        if command_id in self._seen:
            return
        self._seen.append(command_id)
        order = replace(order, command_id=command_id, capture_id=order.capture_id or uuid.uuid4().hex)
        if _ID.fullmatch(order.capture_id):
            self._on_order(order)
        else:
            # It becomes a file name in the service.
            self.update(update_of(refusal(order, "the id of the capture must be letters, digits, - and _ alone")))
