"""The main loop against frames that no agent of ours sends, and at its end."""

import os
import socket
import threading
import time

import pytest
from midwatch.companion import loop as loop_module
from midwatch.companion.loop import Loop
from midwatch.companion.nowhere import Nowhere
from midwatch.companion.parent import Parent
from midwatch.link.frames import Channel


@pytest.mark.parametrize("number", ["x", [], None, float("inf")])
def test_a_frame_that_makes_no_sense_stops_neither_the_loop_nor_the_frames_behind_it(tmp_path, swallowed, number):
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, theirs = (Channel(end, str(tmp_path)) for end in ends)
    sink = Nowhere("no collector is set", theirs.send)
    for frame in ({"t": "flush", "id": number}, {"t": "flush", "id": 7}, {"t": "bye"}):
        assert ours.send(frame) == ""
    parent = Parent(os.getppid())
    loop = Loop(theirs, parent, sink)
    loop.run()
    assert loop.orphaned
    assert {"t": "flushed", "id": 7} in ours.receive()[0]
    assert [place for place, _ in swallowed] == ["companion.handle"]
    swallowed.clear()
    ours.close()
    theirs.close()
    parent.close()


class Sink(Nowhere):
    """Remembers what it was given; is done after a number of questions."""

    def __init__(self, *, turns=0, reads=0):
        super().__init__("", lambda _frame: "")
        self.turns, self.reads = turns, reads
        self.handled = []
        self.asked = 0

    def handle(self, frame):
        self.handled.append(frame["n"])

    def ask_flush(self):
        self.asked += 1

    def flushed(self):
        self.turns -= 1
        return self.turns < 0

    def reading(self):
        self.reads -= 1
        return self.reads >= 0


@pytest.fixture
def run(tmp_path):
    """Runs a loop over frames to its end; returns its alarms and what it said."""
    parent = Parent(os.getppid())

    def run(sink, frames):
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours, theirs = (Channel(end, str(tmp_path)) for end in ends)
        ours._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        for frame in frames:
            assert ours.send(frame) == ""
        ours._sock.shutdown(socket.SHUT_WR)
        alarms = []
        Loop(theirs, parent, sink, alarm=alarms.append).run()
        said = ours.receive()[0]
        ours.close()
        theirs.close()
        return alarms, said

    yield run
    parent.close()


@pytest.mark.parametrize("last", [[], [{"t": "bye"}]], ids=["killed", "bye"])
def test_all_that_lies_in_the_socket_is_taken_before_the_end(run, monkeypatch, last):
    monkeypatch.setattr(loop_module, "_DRAINS", 2)
    sink = Sink()
    run(sink, [*({"t": "stats", "n": number} for number in range(100)), *last])
    assert sink.handled == list(range(100))


def test_after_a_bye_windows_are_read_to_their_end_and_not_after_a_death(run, monkeypatch):
    monkeypatch.setattr(loop_module, "_LAST_WORDS_S", 0.05)
    for frames, longest in (([{"t": "bye"}], loop_module._READING_S), ([], 0.0)):
        sink = Sink(turns=10, reads=8)
        alarms, _ = run(sink, frames)
        assert (sink.turns < 0) == bool(frames)
        assert alarms == [int(longest + 0.05) + 20]


def test_nothing_is_asked_again_where_a_flush_was_answered_and_nothing_came_since(run):
    sink = Sink()
    _, said = run(sink, [{"t": "stats", "n": 1}, {"t": "flush", "id": 1}, {"t": "bye"}])
    assert (sink.asked, said) == (1, [{"t": "flushed", "id": 1}])
    sink = Sink(turns=3)  # so that the flush is not answered before the end
    run(sink, [{"t": "flush", "id": 1}, {"t": "bye"}])
    assert sink.asked == 2


class Calm(Sink):
    """Wants no turn for an hour, and counts those that it gets."""

    def __init__(self):
        super().__init__()
        self.ticks = 0

    def start(self, rouse):
        self.rouse = rouse

    def tick(self):
        self.ticks += 1
        return 3600.0


def test_a_calm_loop_turns_for_a_frame_for_news_and_for_its_end_alone(tmp_path, wait_until):
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, theirs = (Channel(end, str(tmp_path)) for end in ends)
    parent, sink = Parent(os.getppid()), Calm()
    loop = Loop(theirs, parent, sink)
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: sink.ticks == 1)
    assert ours.send({"t": "stats", "n": 1}) == ""
    wait_until(lambda: sink.ticks == 2)
    assert sink.handled == [1]
    sink.rouse()
    wait_until(lambda: sink.ticks == 3)
    time.sleep(1.2)
    assert sink.ticks == 3
    loop.end()
    thread.join(5.0)
    assert not thread.is_alive()
    for one in (ours, theirs, parent):
        one.close()
