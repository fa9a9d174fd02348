import socket

import pytest
from midwatch.link.frames import MAX_PACKET_BYTES, Channel
from midwatch.model.pieces import JsonText


@pytest.fixture
def ends(tmp_path):
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channels = [Channel(end, str(tmp_path)) for end in pair]
    yield channels
    for channel in channels:
        channel.close()


def test_frames_arrive_whole_and_in_order_both_ways(ends):
    here, there = ends
    assert [here.send({"t": "a", "n": n, "text": "é\ud800"}) for n in range(3)] == ["", "", ""]
    assert there.send({"t": "b"}) == ""
    frames, closed = there.receive()
    assert [frame["n"] for frame in frames] == [0, 1, 2]
    assert frames[0]["text"] == "é\ud800"
    assert not closed
    assert here.receive() == ([{"t": "b"}], False)


def test_a_large_frame_goes_through_a_file_that_the_receiver_removes(ends, tmp_path):
    here, there = ends
    frame = {"t": "spike", "text": "x" * MAX_PACKET_BYTES}
    assert here.send(frame) == ""
    assert len(list(tmp_path.iterdir())) == 1
    assert there.receive() == ([frame], False)
    assert list(tmp_path.iterdir()) == []


def test_what_the_kernel_takes_as_no_packet_goes_through_a_file_too(ends):
    here, there = ends
    here._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
    frame = {"t": "stats", "text": "x" * 20_000}
    assert here.send(frame) == ""
    assert there.receive() == ([frame], False)


def test_a_full_socket_is_a_reason_and_leaves_no_file(ends, tmp_path):
    here, there = ends
    sent = 0
    while here.send({"t": "stats", "text": "x" * 1000}) == "":
        sent += 1
        assert sent < 100_000
    assert here.send({"t": "stats", "text": "x" * 1000}) == "link_full"
    assert here.send({"t": "spike", "text": "x" * MAX_PACKET_BYTES}) == "link_full"
    assert list(tmp_path.iterdir()) == []
    assert len(there.receive(limit=sent + 1)[0]) == sent


def test_a_value_that_has_been_written_already_arrives_as_any_other(ends):
    here, there = ends
    assert here.send({"t": "spike", "spike": JsonText('{"samples":[1,"é"]}'), "n": 7}) == ""
    assert there.receive() == ([{"t": "spike", "spike": {"samples": [1, "é"]}, "n": 7}], False)


def test_what_is_no_json_is_not_sent(ends):
    assert ends[0].send({"t": "stats", "oops": object()}) == "link_unencodable"
    loop = {"t": "stats"}
    loop["self"] = loop
    assert ends[0].send(loop) == "link_unencodable"


def test_without_a_directory_a_large_frame_is_dropped(ends, tmp_path):
    tmp_path.rmdir()
    assert ends[0].send({"text": "x" * MAX_PACKET_BYTES}) == "link_spill_failed"
    tmp_path.mkdir()


def test_a_packet_that_is_no_frame_is_skipped(ends):
    here, there = ends
    for packet in (b"\xff\xfe", b"[1]", b'{"t":"file","path":"/nowhere/at/all"}', b"{"):
        here._sock.send(packet)
    here.send({"t": "stats"})
    assert there.receive() == ([{"t": "stats"}], False)


def test_the_end_of_the_other_side_is_told_after_its_last_frame(ends):
    here, there = ends
    here.send({"t": "bye"})
    here.close()
    assert there.receive() == ([{"t": "bye"}], True)
    assert there.send({"t": "order"}) == "link_closed"
    assert here.fileno() == -1
