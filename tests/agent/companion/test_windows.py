import json
import os
import sys
import time

import pytest
from midwatch.companion import windows as windows_module
from midwatch.companion.batches import CHUNK_BYTES, Batcher
from midwatch.companion.windows import Windows
from midwatch.model.capture import Capture
from midwatch.model.plain import to_plain
from midwatch.model.resource import Resource
from midwatch_proto.v1 import ingest_pb2

pytestmark = pytest.mark.process

READS = """
import json, sys
trace, tracks, out = sys.argv[1:]
open(out, "wb").write(open(trace, "rb").read() * 100_000)
print(json.dumps({"summary": {"events": 3}, "caveats": [{"code": "kernels_missing", "text": "none"}]}))
"""
NEVER_ENDS = "import sys; sys.stdin.read()"
DIES = "import sys; sys.exit(137)"
COMPLAINS = """import json; print(json.dumps({"error": "the profiler's file holds no events"}))"""


@pytest.fixture
def spool(make_spool):
    return make_spool(limit_bytes=64 << 20)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "traces"
    path.mkdir()
    (path / "lock").touch()
    return path


@pytest.fixture
def unread():
    return []


@pytest.fixture
def make_windows(folder, spool, drops, unread):
    made = []

    def make(program, *, send_raw=False, start=True):
        batcher = Batcher(spool, Resource("me", "reco"))
        command = (sys.executable, "-c", program)
        made.append(Windows(folder, batcher, drops.drop, send_raw=send_raw, unread=unread.append, command=command))
        if start:
            made[-1].start()
        return made[-1]

    yield make
    for windows in made:
        windows.stop()


@pytest.fixture
def window(folder):
    """Lays the files of a window down and returns its frame."""

    def make(capture_id="w1"):
        trace, tracks = folder / f"{capture_id}.json", folder / f"{capture_id}.tracks.json"
        trace.write_text("trace " * 2)
        tracks.write_text("{}")
        capture = to_plain(Capture(capture_id, "demand", "done", command_id="c1"))
        return {"t": "capture", "capture": capture, "trace_path": str(trace), "tracks_path": str(tracks)}

    return make


def spooled(spool):
    """The records that wait, oldest first."""
    found = []
    while (entry := spool.take()) is not None:
        found.extend(ingest_pb2.Batch.FromString(spool.load(entry)).records)
    return found


def test_a_window_becomes_a_capture_and_leaves_no_file(make_windows, window, folder, spool, wait_until):
    windows = make_windows(READS)
    windows.submit(window())
    wait_until(lambda: windows.idle)
    (record,) = spooled(spool)
    assert (record.capture.state, record.capture.summary.events) == ("done", 3)
    assert [caveat.code for caveat in record.capture.caveats] == ["kernels_missing"]
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_the_raw_file_follows_in_chunks_where_it_may(make_windows, window, spool, wait_until):
    windows = make_windows(READS, send_raw=True)
    windows.submit(window())
    wait_until(lambda: windows.idle)
    capture, *chunks = spooled(spool)
    assert capture.WhichOneof("record") == "capture"
    total = 12 * 100_000
    assert [chunk.trace_chunk.offset for chunk in chunks] == list(range(0, total, CHUNK_BYTES))
    assert [chunk.trace_chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert {chunk.trace_chunk.total_bytes for chunk in chunks} == {total}
    assert sum(len(chunk.trace_chunk.data) for chunk in chunks) == total


@pytest.mark.parametrize(
    ("program", "says"),
    [(DIES, "ended with code 137"), (COMPLAINS, "the profiler's file holds no events")],
)
def test_what_cannot_be_read_is_a_failed_capture_with_one_sentence(
    program, says, make_windows, window, folder, spool, wait_until, unread
):
    windows = make_windows(program)
    windows.submit(window())
    wait_until(lambda: windows.idle)
    (record,) = spooled(spool)
    assert (record.capture.state, record.capture.command_id) == ("failed", "c1")
    assert says in record.capture.detail
    assert unread == [record.capture.detail]
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_a_reader_that_takes_too_long_is_ended(make_windows, window, spool, wait_until, monkeypatch):
    monkeypatch.setattr(windows_module, "_READ_S", 0.1)
    windows = make_windows(NEVER_ENDS)
    windows.submit(window())
    wait_until(lambda: windows.idle)
    assert "took more than" in spooled(spool)[0].capture.detail


def test_at_the_end_what_is_not_read_is_said_to_have_failed(make_windows, window, folder, spool, wait_until):
    windows = make_windows(NEVER_ENDS)
    windows.submit(window("w1"))
    windows.submit(window("w2"))
    wait_until(lambda: windows._reader is not None)
    windows.stop()
    records = spooled(spool)
    assert [record.capture.capture_id for record in records] == ["w1", "w2"]
    assert {record.capture.detail for record in records} == {"the service ended before this trace was read"}
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_a_companion_that_died_leaves_its_windows_to_its_heir(make_windows, window, folder, spool, wait_until):
    make_windows(READS, start=False).submit(window())
    heir = make_windows(READS)
    wait_until(lambda: heir.idle)
    assert spooled(spool)[0].capture.state == "done"
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_a_window_that_two_companions_died_of_is_not_tried_again(make_windows, window, folder, spool, wait_until):
    make_windows(READS, start=False).submit(window())
    (note,) = folder.glob("pending-*.json")
    note.write_text(json.dumps({**json.loads(note.read_text()), "tries": 2}))
    heir = make_windows(READS)
    wait_until(lambda: heir.idle)
    assert spooled(spool)[0].capture.detail == "the companion died twice while it read this trace"


def test_a_window_without_a_trace_is_spooled_at_once(make_windows, spool):
    refused = to_plain(Capture("w1", "spike", "refused", detail="a user's profiler runs"))
    make_windows(DIES).submit({"t": "capture", "capture": refused, "trace_path": "", "tracks_path": ""})
    assert spooled(spool)[0].capture.detail == "a user's profiler runs"


def test_more_windows_than_can_be_read_fail_rather_than_pile_up(make_windows, window, folder, spool):
    windows = make_windows(NEVER_ENDS, start=False)
    for number in range(9):
        windows.submit(window(f"w{number}"))
    (record,) = spooled(spool)
    assert record.capture.capture_id == "w8"
    assert record.capture.detail == "too many windows wait to be read"
    assert len(list(folder.glob("w*"))) == 16


def test_files_that_nobody_asks_about_are_removed_and_counted(make_windows, folder, drops):
    windows = make_windows(READS)
    old, young = folder / "old.json", folder / "young.json"
    for path in (old, young):
        path.touch()
    hour_ago = time.time() - 3600
    for path in (old, folder / "lock"):
        os.utime(path, (hour_ago, hour_ago))
    windows.sweep()
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "young.json"]
    assert dict(drops.counts()) == {"trace_file_without_capture": 1}


def test_the_reader_is_told_how_much_memory_it_may_take(spool, folder, drops, window, wait_until):
    program = 'import os, json; print(json.dumps({"error": os.environ["MIDWATCH_TRACE_MEMORY_BYTES"]}))'
    windows = Windows(
        folder,
        Batcher(spool, Resource("me", "reco")),
        drops.drop,
        send_raw=False,
        memory_bytes=1 << 28,
        command=(sys.executable, "-c", program),
    )
    windows.start()
    try:
        windows.submit(window())
        wait_until(lambda: windows.idle)
    finally:
        windows.stop()
    assert spooled(spool)[0].capture.detail == "268435456"
