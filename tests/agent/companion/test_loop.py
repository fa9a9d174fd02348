"""The main loop against frames that no agent of ours sends."""

import os
import socket

import pytest
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
