"""The companion's main loop: frames in, timers, and the end, which comes with the service's."""

from __future__ import annotations

import selectors
import time
from typing import Protocol

from midwatch.companion.parent import Parent
from midwatch.guard import guard
from midwatch.link.frames import Channel, Frame

_TURN_S = 0.5
_FLUSHING_TURN_S = 0.02
_LAST_WORDS_S = 3.0


class Sink(Protocol):
    """Where frames go: `Upstream` or `Nowhere`."""

    def start(self) -> None:
        """Begin."""
        ...

    def handle(self, frame: Frame) -> None:
        """Take one frame."""
        ...

    def tick(self) -> None:
        """Do what is due."""
        ...

    def ask_flush(self) -> None:
        """Begin to get everything out."""
        ...

    def flushed(self) -> bool:
        """Return whether everything is out, or as safe as it gets."""
        ...

    def close(self) -> None:
        """End."""
        ...


class Loop:
    """Runs until the service ends, says ``bye``, or `end` is called."""

    def __init__(self, channel: Channel, parent: Parent, sink: Sink) -> None:
        self.orphaned = False
        """Whether the service is gone, so that its trace directory is nobody's."""
        self._channel = channel
        self._parent = parent
        self._sink = sink
        self._ending = False
        self._hurried = False
        self._flushes: list[int] = []

    def end(self) -> None:
        """End soon: flush, then go. A second call ends at once. For signal handlers."""
        self._hurried = self._ending
        self._ending = True

    def run(self) -> None:
        """Do it all."""
        self._sink.start()
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            if self._parent.fileno() >= 0:
                selector.register(self._parent, selectors.EVENT_READ)
            while not self._ending:
                selector.select(_FLUSHING_TURN_S if self._flushes else _TURN_S)
                self._turn()
        self._last_words()
        self._sink.close()

    def _turn(self) -> None:
        self._drain()
        if self._parent.gone():
            self.orphaned = self._ending = True
        with guard.at("companion.tick"):
            self._sink.tick()
        self._answer()

    def _drain(self) -> None:
        frames, closed = self._channel.receive()
        for frame in frames:
            with guard.at("companion.handle"):
                self._take(frame)
        if closed:
            self.orphaned = self._ending = True

    def _take(self, frame: Frame) -> None:
        kind = frame.get("t")
        if kind == "bye":
            self.orphaned = self._ending = True
        elif kind == "flush":
            self._flushes.append(int(frame.get("id", 0)))
            self._sink.ask_flush()
        else:
            self._sink.handle(frame)

    def _answer(self) -> None:
        """Answer the flushes that were asked for, once everything is out."""
        if self._flushes and self._sink.flushed():
            done, self._flushes = self._flushes, []
            for number in done:
                self._channel.send({"t": "flushed", "id": number})

    def _last_words(self) -> None:
        """Get out what there is, but not for long: the service is gone, and nobody waits for us."""
        deadline_s = time.monotonic() + _LAST_WORDS_S
        self._drain()
        self._sink.ask_flush()
        while not self._sink.flushed() and time.monotonic() < deadline_s and not self._hurried:
            time.sleep(_FLUSHING_TURN_S)
            self._drain()
        self._answer()
