"""The companion's main loop: frames in, timers, and the end, which comes with the service's."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable
from typing import Protocol

from midwatch.companion.parent import Parent
from midwatch.guard import guard
from midwatch.link.frames import Channel, Frame

_TURN_S = 0.5
CALM_S = 5.0
"""Between two turns while nothing waits. Each costs a process that has slept a millisecond, on a core that the service
may want: it finds nothing in any cache."""
_FLUSHING_TURN_S = 0.02
_FEW = 8
"""Frames read at once: those not handled yet would die with this process."""
_DRAINS = 32
"""Reads in one turn, so that timers get theirs."""
_LAST_WORDS_S = 3.0
_READING_S = 60.0
"""After a ``bye`` windows that wait are still read. A service that was killed may be started again and wants the
machine for itself: its windows fail, with the reason, unless they are read at once."""
_CLOSE_S = 20


class Sink(Protocol):
    """Where frames go: `Upstream` or `Nowhere`."""

    def start(self, rouse: Callable[[], None]) -> None:
        """Begin. ``rouse``, from any thread, has the next `tick` come at once."""
        ...

    def handle(self, frame: Frame) -> None:
        """Take one frame."""
        ...

    def tick(self) -> float:
        """Do what is due. Return after how many seconds to come again if nothing happens until then."""
        ...

    def ask_flush(self) -> None:
        """Begin to get everything out."""
        ...

    def flushed(self) -> bool:
        """Return whether everything is out, or as safe as it gets."""
        ...

    def reading(self) -> bool:
        """Return whether windows are still being read."""
        ...

    def close(self) -> None:
        """End."""
        ...


class Loop:
    """Runs until the service ends, says ``bye``, or `end` is called."""

    def __init__(
        self,
        channel: Channel,
        parent: Parent,
        sink: Sink,
        *,
        alarm: Callable[[int], object] = lambda _seconds: None,
    ) -> None:
        """``alarm`` ends this process after so many seconds, whatever hangs: nobody else would, once it is alone."""
        self.orphaned = False
        """Whether the service is gone, so that its trace directory is nobody's."""
        self._channel = channel
        self._parent = parent
        self._sink = sink
        self._alarm = alarm
        self._ending = False
        self._hurried = False
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rest_s = _TURN_S
        self._reading_s = 0.0
        self._flushes: list[int] = []
        self._all_out = False
        """Whether a flush was answered, and nothing came since."""

    def end(self) -> None:
        """End soon: flush, then go. A second call ends at once. For signal handlers."""
        self._hurried = self._ending
        self._ending = True
        self.rouse()

    def rouse(self) -> None:
        """Begin the next turn now. For any thread, and for signal handlers, which do not end a wait by themselves."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._bell, 1)

    def run(self) -> None:
        """Do it all."""
        self._sink.start(self.rouse)
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            selector.register(self._bell, selectors.EVENT_READ)
            watched = self._parent.fileno() >= 0
            if watched:
                selector.register(self._parent, selectors.EVENT_READ)
            while not self._ending:
                rest_s = self._rest_s if watched else _TURN_S
                selector.select(_FLUSHING_TURN_S if self._flushes else rest_s)
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._bell)
                self._turn()
        self._last_words()
        self._sink.close()

    def _turn(self) -> None:
        self._drain()
        if self._parent.gone():
            self.orphaned = self._ending = True
        self._rest_s = guard.call("companion.tick", self._sink.tick, default=_TURN_S)
        self._answer()

    def _drain(self) -> bool:
        """Take frames from the socket. Return whether there may be more."""
        for _ in range(_DRAINS):
            frames, closed = self._channel.receive(_FEW)
            for frame in frames:
                with guard.at("companion.handle"):
                    self._take(frame)
            if closed:
                self.orphaned = self._ending = True
            if closed or not frames:
                return False
        return True

    def _take(self, frame: Frame) -> None:
        kind = frame.get("t")
        if kind == "bye":
            self.orphaned = self._ending = True
            self._reading_s = _READING_S
        elif kind == "flush":
            self._flushes.append(int(frame.get("id", 0)))
            self._sink.ask_flush()
        else:
            self._all_out = False
            self._sink.handle(frame)

    def _answer(self) -> None:
        """Answer the flushes that were asked for, once everything is out."""
        if self._flushes and self._sink.flushed():
            done, self._flushes = self._flushes, []
            self._all_out = True
            for number in done:
                self._channel.send({"t": "flushed", "id": number})

    def _last_words(self) -> None:
        """Get out what there is, but not for ever: the service is gone, and nobody waits for us."""
        longest_s = self._reading_s + _LAST_WORDS_S
        self._alarm(int(longest_s) + _CLOSE_S)
        now_s = time.monotonic()
        longest_s, until_s = now_s + longest_s, now_s + _LAST_WORDS_S
        # All of it, however long that takes: what stays in the socket is lost.
        while self._drain():
            pass
        if self._all_out:
            return
        self._sink.ask_flush()
        while not self._sink.flushed() and time.monotonic() < until_s and not self._hurried:
            time.sleep(_FLUSHING_TURN_S)
            self._drain()
            if self._sink.reading():
                until_s = min(time.monotonic() + _LAST_WORDS_S, longest_s)
        self._answer()
