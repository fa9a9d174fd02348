from __future__ import annotations

import errno
import os
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from midwatch_server.errors import RecordRejectedError, StoreUnavailableError
from midwatch_server.store.traces import MAX_TRACE_BYTES, TraceFiles

DATA = bytes(range(256)) * 40


@pytest.fixture
def traces(tmp_path):
    return TraceFiles(tmp_path / "traces")


def send(traces, offset, end, *, last=False, name="c1", data=DATA):
    return traces.write(name, offset, data[offset:end], last=last, total_bytes=len(data))


def test_chunks_become_a_file(traces):
    assert not send(traces, 0, 4000)
    assert not send(traces, 4000, 9000)
    assert not traces.path("c1").exists()
    assert send(traces, 9000, len(DATA), last=True)
    assert traces.path("c1").read_bytes() == DATA
    assert list(traces.path("c1").parent.iterdir()) == [traces.path("c1")]


def test_chunks_may_come_again(traces):
    send(traces, 0, 4000)
    send(traces, 0, 4000)
    send(traces, 4000, 9000)
    send(traces, 2000, 9000)
    assert send(traces, 9000, len(DATA), last=True)
    assert send(traces, 9000, len(DATA), last=True)
    assert not send(traces, 0, 4000)
    assert traces.path("c1").read_bytes() == DATA


def test_a_sender_that_starts_over_with_a_shorter_file_gets_that_file(traces):
    send(traces, 0, 9000)
    short = b"other" * 100
    assert traces.write("c1", 0, short, last=True, total_bytes=len(short))
    assert traces.path("c1").read_bytes() == short


def test_a_gap_is_rejected(traces):
    send(traces, 0, 4000)
    with pytest.raises(RecordRejectedError, match="missing before offset 5000"):
        send(traces, 5000, 9000)
    with pytest.raises(RecordRejectedError, match="missing"):
        send(traces, 1, 9, name="never-began")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "x" * 129, "a\0b", "ä", "a b", "a\n"])
def test_names_that_could_leave_the_folder_are_rejected(traces, name):
    with pytest.raises(RecordRejectedError, match="id of 1 to 128"):
        send(traces, 0, 10, name=name)
    assert list(traces.path("c1").parent.iterdir()) == []


@pytest.mark.parametrize(
    ("offset", "total", "last"), [(-1, 10, False), (0, 9, True), (0, 11, True), (MAX_TRACE_BYTES, 0, False)]
)
def test_impossible_bounds_are_rejected(traces, offset, total, last):
    with pytest.raises(RecordRejectedError, match="impossible bounds"):
        traces.write("c1", offset, b"0123456789", last=last, total_bytes=total)


def test_a_full_disk_is_unavailable(traces, monkeypatch):
    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreUnavailableError, match="No space left"):
        send(traces, 0, 10)


def test_data_is_on_disk_before_it_gets_its_name(traces, monkeypatch):
    seen = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (seen.append(traces.path("c1").exists()), fsync(descriptor)))
    send(traces, 0, len(DATA), last=True)
    assert seen == [False, True]  # the data, then the folder that now holds the name


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(1, len(DATA) - 1), max_size=6, unique=True), again=st.data())
def test_any_cutting_and_any_repetition_gives_the_same_file(tmp_path_factory, cuts, again):
    traces = TraceFiles(tmp_path_factory.mktemp("traces"))
    edges = [0, *sorted(cuts), len(DATA)]
    for number, (start, end) in enumerate(pairwise(edges)):
        from_chunk = again.draw(st.integers(0, number))
        for first, second in list(pairwise(edges))[from_chunk:number]:
            send(traces, first, second)
        send(traces, start, end, last=end == len(DATA))
    assert traces.path("c1").read_bytes() == DATA
